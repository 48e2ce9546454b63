"""Commands on what is in a store: sessions, questions, values, files, secrets. None opens a session's tools unless it
says so; what `app.kept` promises holds here."""
