"""A catalog of 5,000 tools, and 50 questions with the tool that answers each.

How it was made: the tools of WRITTEN were written by hand, in the manner of well-known public APIs (code hosting, chat,
mail, payments, shops, clouds, maps and so on); parameters and descriptions are ours. The others are made by rule:
invented services, each with the same verbs over the same business nouns as the real ones, so that a question about
creating an issue finds dozens of tools of nearly that name. The questions were written by hand for 50 of the tools, in
the words of somebody who knows what they want and often the service, but not the name of the tool. Neither they nor the
search were changed after the first time that they were put to it.
"""

from collections.abc import Iterator
from typing import Any

from cloister import Tool

WRITTEN = """
github.create_issue(owner, repo, title, body, labels, assignees): Open a new issue in a repository.
github.list_issues(owner, repo, state, labels, since): List issues of a repository, open or closed.
github.add_issue_comment(owner, repo, issue_number, body): Comment on an issue.
github.create_pull_request(owner, repo, title, head, base, body, draft): Propose the changes of a branch for merging.
github.merge_pull_request(owner, repo, pull_number, merge_method): Merge a pull request into its base branch.
github.list_pull_request_files(owner, repo, pull_number): Which files a pull request changes, with their patches.
github.request_reviewers(owner, repo, pull_number, reviewers): Ask people to review a pull request.
github.get_file_contents(owner, repo, path, ref): Read a file or a directory from a repository.
github.create_or_update_file(owner, repo, path, content, message, branch, sha): Write one file as a commit.
github.search_code(query, sort, order): Search for code across all repositories.
github.list_commits(owner, repo, sha, author): The history of a branch.
github.fork_repository(owner, repo, organization): Make your own copy of a repository.
github.create_release(owner, repo, tag_name, name, body, prerelease): Publish a release from a tag.
github.list_workflow_runs(owner, repo, workflow_id, status): Runs of continuous integration and their outcome.
github.rerun_failed_jobs(owner, repo, run_id): Start the failed jobs of a workflow run again.
github.star_repository(owner, repo): Star a repository for yourself.
gitlab.create_merge_request(project_id, source_branch, target_branch, title): Open a merge request.
gitlab.retry_pipeline(project_id, pipeline_id): Retry all failed jobs of a pipeline.
gitlab.list_runners(scope, status): The runners that execute pipelines.
gitlab.create_wiki_page(project_id, title, content): Add a page to a project's wiki.
jira.create_ticket(project_key, summary, issue_type, description, priority): File a ticket in a project.
jira.transition_ticket(ticket_key, transition_id): Move a ticket to another status in its workflow.
jira.search_with_jql(jql, max_results, fields): Find tickets with a JQL expression.
jira.log_work(ticket_key, time_spent, started, comment): Record the time that was spent on a ticket.
jira.create_sprint(board_id, name, start_date, end_date, goal): Plan a sprint on a board.
jira.link_tickets(inward_key, outward_key, link_type): Say that one ticket blocks or duplicates another.
linear.assign_issue(issue_id, assignee_id): Give an issue to somebody on the team.
linear.list_cycles(team_id): The cycles of a team.
slack.post_message(channel, text, thread_ts, blocks): Send a message to a channel or a thread.
slack.schedule_message(channel, text, post_at): Have a message sent later.
slack.list_channels(exclude_archived, types, limit): All channels of the workspace.
slack.invite_to_channel(channel, users): Add people to a channel.
slack.add_reaction(channel, timestamp, name): React to a message with an emoji.
slack.upload_file(channels, content, filename, title): Share a file in channels.
slack.set_status(status_text, status_emoji, expiration): Set your own status line.
slack.search_messages(query, sort, count): Find messages that match some words.
slack.pin_message(channel, timestamp): Pin a message in its channel.
discord.ban_member(guild_id, user_id, reason, delete_message_days): Ban somebody from a server.
discord.create_voice_channel(guild_id, name, bitrate, user_limit): Add a voice channel to a server.
teams.create_meeting(subject, start, end, attendees): Set up an online meeting with a link to join.
telegram.send_photo(chat_id, photo, caption): Send a picture to a chat.
twilio.send_sms(to, from_number, body): Send a text message to a phone.
twilio.make_call(to, from_number, twiml_url): Ring a phone number and play something.
twilio.lookup_phone_number(phone_number, type): Find out the carrier and the country of a phone number.
gmail.send_email(to, subject, body, cc, bcc, attachments): Send an e-mail.
gmail.search_threads(q, max_results, label_ids): Find conversations in the mailbox.
gmail.create_filter(criteria, action): Sort incoming mail by a rule.
gmail.trash_message(message_id): Move a mail to the bin.
gmail.set_vacation_responder(enabled, subject, body, start_time, end_time): Answer mail automatically while away.
gmail.list_labels(): The labels of the mailbox.
outlook.flag_message(message_id, due): Flag a mail for follow-up.
sendgrid.add_contact_to_list(list_id, email, first_name): Subscribe somebody to a mailing list.
sendgrid.get_bounce(email): Why mail to an address bounced.
mailchimp.create_campaign(list_id, subject_line, template_id): Prepare a newsletter for an audience.
mailchimp.unsubscribe_member(list_id, email): Take somebody off an audience.
calendar.create_event(calendar_id, summary, start, end, attendees, location): Put an event into a calendar.
calendar.list_events(calendar_id, time_min, time_max, q): What is in a calendar between two times.
calendar.find_free_busy(calendar_ids, time_min, time_max): When people are free and when they are busy.
calendar.delete_event(calendar_id, event_id, send_updates): Cancel an event.
calendar.respond_to_invitation(event_id, response): Accept or decline an invitation.
calendly.list_event_types(user): The kinds of appointment that can be booked.
zoom.list_recordings(user_id, start, end): Cloud recordings of past meetings.
zoom.get_meeting_transcript(meeting_id): What was said in a meeting, as text.
drive.upload_file(name, parent_id, content, mime_type): Put a file into a folder.
drive.share_file(file_id, email, role, notify): Let somebody read or edit a file.
drive.search_files(query, page_size): Find files by name or content.
drive.export_document(file_id, mime_type): Convert a document, for example to PDF, and download it.
drive.create_folder(name, parent_id): Make a folder.
drive.list_revisions(file_id): Earlier versions of a file.
sheets.read_range(spreadsheet_id, range): The cells of a range of a spreadsheet.
sheets.append_rows(spreadsheet_id, range, values): Add rows to the end of a table in a spreadsheet.
sheets.clear_range(spreadsheet_id, range): Empty the cells of a range.
sheets.add_chart(spreadsheet_id, sheet_id, chart_spec): Draw a chart in a spreadsheet.
docs.insert_text(document_id, location, text): Write text into a document.
slides.create_presentation(title): Begin an empty slide deck.
dropbox.create_shared_link(path, password, expires): A link to a file for people without an account.
dropbox.restore_file(path, rev): Bring an earlier version of a file back.
notion.create_page(parent_id, title, children): Add a page to a workspace or a database.
notion.query_database(database_id, filter, sorts): Rows of a database that match a filter.
notion.append_blocks(block_id, children): Add paragraphs to a page.
confluence.update_page(page_id, title, body, version): Change the text of a wiki page.
trello.move_card(card_id, list_id, position): Drag a card to another list.
trello.add_checklist(card_id, name, items): Put a checklist on a card.
trello.archive_card(card_id): Archive a card.
asana.complete_task(task_gid): Tick a task off.
asana.add_subtask(task_gid, name, assignee, due_on): Break a task down.
todoist.reschedule_task(task_id, due_string): Put off a task to another day.
stripe.create_payment_intent(amount, currency, customer, payment_method): Begin to charge a card.
stripe.create_refund(charge, amount, reason): Give a customer money back for a charge.
stripe.create_customer(email, name, description): Register a customer for billing.
stripe.list_disputes(created, charge): Chargebacks that customers have filed.
stripe.cancel_subscription(subscription_id, at_period_end): End a recurring subscription.
stripe.create_coupon(percent_off, duration, max_redemptions): A discount for subscriptions.
stripe.list_balance_transactions(payout, type): Everything that changed the balance of the account.
stripe.create_payout(amount, currency, destination): Send the balance to a bank account.
stripe.finalize_invoice(invoice_id): Make a draft invoice final.
paypal.capture_order(order_id): Take the money of an approved order.
plaid.get_account_balances(access_token): How much is on somebody's bank accounts.
quickbooks.create_bill(vendor_id, lines, due_date): Enter what is owed to a vendor.
xero.reconcile_transaction(transaction_id, invoice_id): Match a bank line with an invoice.
wise.get_exchange_rate(source, target, time): How much one currency is worth in another.
wise.create_transfer(quote_id, recipient_id, reference): Send money abroad.
shopify.create_product(title, vendor, variants, images): Add a product to the shop.
shopify.adjust_inventory(inventory_item_id, location_id, delta): Correct how many pieces are in stock.
shopify.fulfill_order(order_id, tracking_number, carrier): Mark an order as shipped.
shopify.list_abandoned_checkouts(since): Carts that customers filled and left.
shopify.create_discount_code(code, value, starts_at, ends_at): A code that lowers the price at checkout.
amazon_sp.get_order_items(order_id): What a customer has bought in one order.
etsy.update_listing(listing_id, title, price, quantity): Change what is offered.
shippo.create_label(shipment_id, rate_id): Buy postage and print it for a parcel.
shippo.track_package(carrier, tracking_number): Where a parcel is now.
ups.validate_address(street, city, postal_code, country): Check that a postal address exists.
salesforce.create_lead(last_name, company, email, source): Register somebody who may buy.
salesforce.convert_lead(lead_id, account_id): Make an account and an opportunity of a lead.
salesforce.run_soql(query): Query records with SOQL.
salesforce.update_opportunity(opportunity_id, stage, amount, close_date): Change the stage of a deal.
hubspot.create_contact(email, first_name, last_name, company): Add a person to the CRM.
hubspot.enroll_in_workflow(contact_id, workflow_id): Start a marketing automation for a contact.
hubspot.log_call(contact_id, notes, duration): Note a phone call with a contact.
zendesk.create_ticket(subject, comment, requester, priority): Open a support ticket for a customer.
zendesk.merge_tickets(target_id, source_ids): Join several support tickets into one.
zendesk.list_satisfaction_ratings(score, start_time): How happy customers were with the support.
intercom.reply_to_conversation(conversation_id, body): Answer a customer's chat.
pagerduty.trigger_incident(service_id, title, urgency, details): Alert whoever is on call.
pagerduty.acknowledge_incident(incident_id): Say that somebody works on an incident.
pagerduty.list_on_calls(schedule_ids, since, until): Who is on call now.
pagerduty.create_override(schedule_id, user_id, start, end): Have somebody else take a shift.
datadog.query_metrics(query, from_time, to_time): Values of a metric over time.
datadog.mute_monitor(monitor_id, end): Silence an alert for a while.
datadog.create_dashboard(title, widgets): Build a page of graphs.
datadog.search_logs(query, from_time, to_time): Find log lines.
sentry.list_project_errors(project, environment, query): Exceptions that an application threw lately.
sentry.resolve_issue(issue_id, in_release): Mark an error as fixed.
grafana.annotate(dashboard_id, time, text): Leave a mark on a graph.
aws_s3.put_object(bucket, key, body, content_type): Store an object in a bucket.
aws_s3.generate_presigned_url(bucket, key, expires_in): A link that lets anybody download an object for a while.
aws_s3.list_buckets(): The buckets of the account.
aws_s3.set_lifecycle_rule(bucket, prefix, days): Delete or move old objects by themselves.
aws_ec2.run_instances(image_id, instance_type, count, key_name): Launch virtual machines.
aws_ec2.stop_instances(instance_ids, force): Shut virtual machines down.
aws_ec2.describe_security_groups(group_ids): Which ports are open to whom.
aws_ec2.create_snapshot(volume_id, description): Back up a disk.
aws_lambda.invoke_function(function_name, payload, invocation_type): Run a serverless function.
aws_lambda.update_function_code(function_name, zip_file): Deploy new code to a serverless function.
aws_iam.create_access_key(user_name): New credentials for a user.
aws_iam.attach_policy(role_name, policy_arn): Give a role more permissions.
aws_sqs.send_message(queue_url, message_body, delay_seconds): Put a message into a queue.
aws_cloudwatch.put_alarm(name, metric, threshold, period): Notify when a metric passes a threshold.
aws_route53.change_records(zone_id, name, type, values, ttl): Change where a domain name points.
aws_cost.get_cost_and_usage(start, end, granularity, group_by): What the cloud has cost.
aws_rds.restore_to_point_in_time(source, target, restore_time): Bring a database back to what it was earlier.
gcp_bigquery.run_query(sql, project, dry_run): Run SQL over very large tables.
gcp_pubsub.publish(topic, data, attributes): Publish a message to a topic.
gcp_vision.annotate_image(image, features): Find text, faces and labels in a picture.
gcp_translate.translate_text(text, target, source): Put a text into another language.
gcp_speech.transcribe_audio(audio, language_code, encoding): Write down what is spoken in a recording.
azure_vm.resize(resource_group, vm_name, size): Give a virtual machine more memory or processors.
azure_keyvault.rotate_secret(vault, name): Replace a secret with a new one.
cloudflare.purge_cache(zone_id, files, purge_everything): Drop cached copies of web pages.
cloudflare.create_dns_record(zone_id, type, name, content, proxied): Add a DNS entry.
cloudflare.block_ip(zone_id, ip, notes): Keep an address out with the firewall.
vercel.rollback_deployment(project_id, deployment_id): Go back to an earlier deployment of a site.
heroku.scale_dynos(app, type, quantity): Run more processes of an app.
k8s.scale_deployment(namespace, name, replicas): Change how many pods run.
k8s.get_pod_logs(namespace, pod, container, tail): Output of a container.
k8s.drain_node(node, grace_period): Move all pods off a machine before maintenance.
k8s.apply_manifest(yaml, namespace): Create or change resources from YAML.
docker.build_image(context, dockerfile, tags): Build a container image.
docker.prune_volumes(filters): Remove volumes that nothing uses.
terraform.plan(workspace, variables): Show what would change in the infrastructure.
postgres.execute_sql(query, parameters): Run SQL against the database.
postgres.explain_query(query, analyze): Why a query is slow.
postgres.list_tables(schema): Tables of a schema.
redis.get_key(key): The value of a key.
redis.expire_key(key, seconds): Let a key vanish after a time.
elasticsearch.reindex(source, dest): Copy documents into another index.
mongodb.aggregate(collection, pipeline): Run an aggregation pipeline.
snowflake.suspend_warehouse(name): Stop paying for idle compute.
airtable.upsert_records(base_id, table, records, key_fields): Insert records, or change those that are there.
weather.get_forecast(latitude, longitude, days): What the weather will be.
weather.get_current_conditions(city, units): Temperature, wind and rain right now.
weather.list_alerts(region, severity): Storm and flood warnings.
weather.get_air_quality(latitude, longitude): How polluted the air is.
maps.geocode_address(address): The coordinates of an address.
maps.reverse_geocode(latitude, longitude): The address at some coordinates.
maps.get_directions(origin, destination, mode, departure_time): The way from one place to another.
maps.search_nearby(location, radius, type): Restaurants, shops and other places around a point.
maps.distance_matrix(origins, destinations, mode): Travel times between many places.
maps.get_elevation(locations): How high places are above the sea.
flights.search_offers(origin, destination, departure_date, adults): Find flights and their prices.
flights.get_status(flight_number, date): Whether a plane is late.
hotels.search_availability(city, check_in, check_out, guests): Rooms that are free.
uber.request_ride(start, end, product_id): Order a car.
opentable.book_table(restaurant_id, time, party_size): Reserve a table in a restaurant.
spotify.create_playlist(name, description, public): Begin a new playlist.
spotify.add_tracks_to_playlist(playlist_id, uris): Put songs into a playlist.
spotify.get_recommendations(seed_artists, seed_tracks, limit): Songs similar to others.
spotify.skip_to_next(): Play the next song.
youtube.upload_video(title, description, file, privacy): Publish a video.
youtube.get_captions(video_id, language): Subtitles of a video.
youtube.list_comments(video_id, order): What people said under a video.
twitter.post_tweet(text, media_ids, reply_to): Publish a short post.
twitter.list_followers(user_id): Who follows somebody.
linkedin.share_article(url, commentary, visibility): Share a link with your professional network.
instagram.publish_story(image_url): Show a picture for a day.
reddit.submit_post(subreddit, title, text, flair): Post to a subreddit.
wordpress.publish_post(title, content, categories, status): Put an article on the blog.
wordpress.moderate_comment(comment_id, status): Approve a comment or mark it as spam.
wikipedia.get_summary(title, language): The first paragraph of an encyclopedia article.
news.search_articles(query, from_date, sort_by, sources): News about something.
arxiv.search_papers(query, category, max_results): Scientific preprints.
pubmed.fetch_abstract(pmid): The abstract of a medical paper.
openlibrary.search_books(title, author, isbn): Find books.
imdb.get_movie(title, year): Cast and rating of a film.
finance.get_stock_quote(symbol): The price of a share now.
finance.get_historical_prices(symbol, start, end, interval): What a share has cost over time.
finance.get_earnings(symbol): Quarterly results of a company.
crypto.get_coin_price(coin_id, currency): What a cryptocurrency is worth.
crypto.get_gas_fees(chain): What a transaction costs on a chain.
docusign.send_envelope(documents, recipients, subject): Have a contract signed.
docusign.void_envelope(envelope_id, reason): Take back a contract that waits for signatures.
bamboohr.request_time_off(employee_id, start, end, type): Ask for a holiday.
bamboohr.get_employee_directory(department): Who works here.
workday.approve_expense_report(report_id, comment): Sign off what somebody has spent.
greenhouse.schedule_interview(application_id, interviewers, start, end): Arrange an interview with a candidate.
greenhouse.reject_application(application_id, reason): Turn a candidate down.
okta.reset_password(user_id, send_email): Let somebody choose a new password.
okta.deactivate_user(user_id): Lock out somebody who has left.
okta.list_mfa_factors(user_id): Second factors that somebody has set up.
auth0.create_user(email, password, connection): Sign somebody up.
figma.export_image(file_key, node_ids, format, scale): Render parts of a design.
figma.post_comment(file_key, message, position): Leave a comment on a design.
canva.resize_design(design_id, width, height): Make a design fit another format.
philips_hue.set_light(light_id, on, brightness, color): Switch a lamp, dim it or change its colour.
nest.set_thermostat(device_id, temperature, mode): Make a room warmer or cooler.
sonos.play_favorite(player_id, favorite_id): Play a favourite on a speaker.
tesla.start_charging(vehicle_id): Begin to charge the car.
fitbit.get_sleep_log(date): How somebody slept.
fitbit.get_heart_rate(date, detail_level): Pulse over a day.
strava.list_activities(after, before): Runs and rides of an athlete.
pdf.merge_documents(files, output): Join several PDFs into one.
pdf.extract_text(file, pages): The text of a PDF.
image.remove_background(image): Cut the subject out of a photo.
qr.generate_code(data, size): Make a QR code.
browser.take_screenshot(url, full_page): A picture of a web page.
browser.click_element(selector): Click on something in a page.
browser.fill_form(fields): Type into the fields of a page.
fs.read_text_file(path, head, tail): The content of a file.
fs.move_file(source, destination): Rename a file or put it elsewhere.
fs.directory_tree(path, exclude): Everything below a directory.
shell.run_command(command, cwd, timeout): Run a command in a terminal.
time_.convert_time(time, source_timezone, target_timezone): What time it is elsewhere.
memory.store_fact(subject, fact): Remember something about somebody.
"""

ASKED = (
    ("file a bug in a github repo", "github.create_issue"),
    ("merge a pull request", "github.merge_pull_request"),
    ("which files does this PR change: pull request files", "github.list_pull_request_files"),
    ("re-run the failed CI jobs", "github.rerun_failed_jobs"),
    ("search code in all repositories", "github.search_code"),
    ("move a jira ticket to done", "jira.transition_ticket"),
    ("log hours I worked on a jira ticket", "jira.log_work"),
    ("post in a slack channel", "slack.post_message"),
    ("send a slack message tomorrow morning, schedule it", "slack.schedule_message"),
    ("react with an emoji", "slack.add_reaction"),
    ("text someone's phone, SMS", "twilio.send_sms"),
    ("email with an attachment", "gmail.send_email"),
    ("out of office auto reply in gmail", "gmail.set_vacation_responder"),
    ("when are people free to meet", "calendar.find_free_busy"),
    ("cancel a calendar event", "calendar.delete_event"),
    ("transcript of a zoom meeting", "zoom.get_meeting_transcript"),
    ("give somebody access to a drive file", "drive.share_file"),
    ("convert a google doc to PDF", "drive.export_document"),
    ("add rows to a spreadsheet", "sheets.append_rows"),
    ("query a notion database", "notion.query_database"),
    ("drag trello card to another list", "trello.move_card"),
    ("refund a stripe charge", "stripe.create_refund"),
    ("end a customer's stripe subscription", "stripe.cancel_subscription"),
    ("chargebacks and disputes", "stripe.list_disputes"),
    ("currency exchange rate dollars to euros", "wise.get_exchange_rate"),
    ("change stock level inventory of a shop item", "shopify.adjust_inventory"),
    ("carts that were abandoned", "shopify.list_abandoned_checkouts"),
    ("where is my parcel, tracking number", "shippo.track_package"),
    ("convert a lead into an opportunity", "salesforce.convert_lead"),
    ("who is on call right now", "pagerduty.list_on_calls"),
    ("silence a datadog alert", "datadog.mute_monitor"),
    ("mark a sentry error as resolved", "sentry.resolve_issue"),
    ("presigned S3 download link", "aws_s3.generate_presigned_url"),
    ("launch an EC2 virtual machine", "aws_ec2.run_instances"),
    ("how much did we spend on AWS last month, cost", "aws_cost.get_cost_and_usage"),
    ("invoke a serverless lambda function", "aws_lambda.invoke_function"),
    ("translate text to French", "gcp_translate.translate_text"),
    ("transcribe an audio recording", "gcp_speech.transcribe_audio"),
    ("purge the CDN cache", "cloudflare.purge_cache"),
    ("scale a kubernetes deployment to 5 replicas", "k8s.scale_deployment"),
    ("container logs of a pod", "k8s.get_pod_logs"),
    ("why is my postgres query slow, explain", "postgres.explain_query"),
    ("weather forecast for the next days", "weather.get_forecast"),
    ("coordinates of an address", "maps.geocode_address"),
    ("restaurants nearby", "maps.search_nearby"),
    ("is my flight delayed, flight status", "flights.get_status"),
    ("stock price of a share", "finance.get_stock_quote"),
    ("reset somebody's okta password", "okta.reset_password"),
    ("turn on the lights, dim the lamp", "philips_hue.set_light"),
    ("screenshot of a web page", "browser.take_screenshot"),
)

_SERVICES = (
    "acorn alpine amber anchor arbor aspen atlas aurora badger basalt beacon birch bison boulder breeze canyon cedar "
    "cinder cobalt comet coral cricket delta dune eagle ember falcon fern"
).split()
_NOUNS = (
    "account address agreement asset batch booking budget campaign card catalog channel claim comment contact contract "
    "customer deal device document employee event expense file folder form group invoice issue item label lead license "
    "meeting message"
).split()
_VERBS = {
    "create": "Create {a} {noun} in {service}.",
    "list": "List the {noun}s of {service}, page by page.",
    "get": "Fetch one {noun} from {service} by its id.",
    "update": "Change the fields of {a} {noun} in {service}.",
    "delete": "Delete {a} {noun} from {service} for good.",
}


def _made() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    for service in _SERVICES:
        for noun in _NOUNS:
            for verb, said in _VERBS.items():
                a = "an" if noun[0] in "aeiou" else "a"
                name = f"{verb}_{noun}s" if verb == "list" else f"{verb}_{noun}"
                about = said.format(a=a, noun=noun, service=service.title())
                yield service, name, (f"{noun}_id", "fields", "limit"), about


def _written() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    for row in WRITTEN.strip().splitlines():
        head, _, about = row.partition("): ")
        name, _, parameters = head.partition("(")
        space, _, own = name.partition(".")
        yield space, own, tuple(parameters.split(", ")) if parameters else (), about


async def _nothing(*_args: object, **_named: object) -> None:
    return None


def many_tools(count: int = 5000) -> list[Tool]:
    """Those that were written by hand, and after them as many of the others as are needed."""
    found: list[Tool] = []
    for space, name, parameters, about in (*_written(), *_made()):
        if len(found) == count:
            break
        schema: dict[str, Any] = {"type": "object", "properties": {key: True for key in parameters}}
        made = Tool.from_schema(name=name, namespace=space, description=about, handler=_nothing, input_schema=schema)
        found.append(made)
    assert len(found) == count, len(found)
    return found
