"""Models of providers, through their SDKs: Anthropic, OpenAI, and servers that speak like them.

    model       the port: one request, with its deadlines and with what is sent again
    patience    when a request is sent again, and after how long
    wire        the connection: what leaves in headers, and how much may come back
    anthropic   the SDKs' clients, without any will of their own; each is loaded only for its models
    openai
    custom      OpenAI's custom tools, which that library does not know; `freeform`: how it is told of them instead
    outgoing    what is asked, in the provider library's terms; `incoming`: its answer in ours, bounded
    failures    its errors in ours, without secrets

`model`, `patience` and `watch` import no SDK; the others are loaded by the first request.
"""
