"""The programs of the tour, in both languages."""

from cloister.core.language import Language

TOGETHER = {
    Language.PYTHON: """\
import asyncio

items = ["tea", "honey", "bread", "olives", "salt"]
prices = await asyncio.gather(*[get_price(item=item) for item in items])
{"items": len(items), "total": sum(prices)}
""",
    Language.TYPESCRIPT: """\
const items: string[] = ["tea", "honey", "bread", "olives", "salt"];
const calls = items.map((item) => tools.get_price({ item }));
const prices = await Promise.all(calls);
({ items: items.length, total: prices.reduce((a, b) => a + b, 0) })
""",
}

# In Python the amount is text where a number belongs; in TypeScript a tool's name is misspelt.
MISTAKEN = {
    Language.PYTHON: """\
price = await get_price(item="tea")
await refund(order_id="A7", cents="all of it")
""",
    Language.TYPESCRIPT: """\
const price: number = await tools.get_price({ item: "tea" });
await tools.refnd({ order_id: "A7", cents: price });
""",
}

ASKING = {
    Language.PYTHON: """\
order = {"id": "A7", "cents": 1250}

def verdict(answer):
    return f"{order['id']}: {answer}, {order['cents']} cents"

print("before the call")
answer = await ask_manager(question="Refund A7?")
print("after the call")
verdict(answer)
""",
    Language.TYPESCRIPT: """\
const order = { id: "A7", cents: 1250 };

function verdict(answer: string): string {
  return `${order.id}: ${answer}, ${order.cents} cents`;
}

console.log("before the call");
const answer = await tools.ask_manager({ question: "Refund A7?" });
console.log("after the call");
verdict(answer)
""",
}

# `refund` asks a person each time; the token is a handle here, whoever looks.
REFUNDING = {
    Language.PYTHON: """\
token = secret("BANK_TOKEN")
paid = []
for order_id, cents in [("A7", 1250), ("B2", 99000)]:
    try:
        paid.append(await refund(order_id, cents, token))
    except RuntimeError as error:
        print(error)
paid
""",
    Language.TYPESCRIPT: """\
const token = secret("BANK_TOKEN");
const paid: string[] = [];
for (const [order_id, cents] of [["A7", 1250], ["B2", 99000]]) {
  try {
    paid.push(await tools.refund({ order_id, cents, token }));
  } catch (error) {
    console.log(error.message);
  }
}
paid
""",
}

# What is charged is charged at once; to give money back, a person is asked.
SELLING = {
    Language.PYTHON: """\
charged = await charge(order_id="A7", cents=1250)
given_back = await refund(order_id="A7", cents=1250)
[charged, given_back]
""",
    Language.TYPESCRIPT: """\
const charged = await charge({ order_id: "A7", cents: 1250 });
const given_back = await refund({ order_id: "A7", cents: 1250 });
[charged, given_back]
""",
}

COUNTING = {
    Language.PYTHON: """\
found = await count_stock("tea")
text({"tea": found})
yield_control()
found += await count_stock("salt")
text({"in all": found})
""",
    Language.TYPESCRIPT: """\
let found = await count_stock({ shelf: "tea" });
text({ tea: found });
yield_control();
found += await count_stock({ shelf: "salt" });
text({ "in all": found });
""",
}

ENDLESS = {Language.PYTHON: "while True:\n    pass", Language.TYPESCRIPT: "while (true) {}"}
