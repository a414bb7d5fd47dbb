"""A small shop: accounts, carts, checkout. The product that the demo observes.

Run as `python shop.py PORT`; it serves HTTP on loopback and keeps everything in memory.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import telemetry

ACCOUNTS: dict[str, dict] = {}
ORDERS: list[dict] = []
PRICES = {"tea": 450, "cup": 1200}


class PaymentDeclined(Exception):
    """The card issuer said no."""


class Refused(Exception):
    """The shop does not do that; the customer is told why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def open_account(user: str) -> dict:
    account = {"user": user, "cart": []}
    ACCOUNTS[user] = account
    # durable: the account exists
    return account


def cart_of(user: str) -> list[dict]:
    if user not in ACCOUNTS:
        raise Refused(404, "no such account")
    return ACCOUNTS[user]["cart"]


def add_to_cart(user: str, item: str, quantity: int) -> dict:
    cart = cart_of(user)
    cart.append({"quantity": quantity, "price": PRICES[item]})
    # durable: the item is in the cart
    return {"items": len(cart)}


def total_price(cart: list[dict]) -> int:
    return sum(line["price"] * line["quantity"] for line in cart)


def average_item_price(cart: list[dict]) -> int:
    return total_price(cart) // sum(line["quantity"] for line in cart)


def check_out(user: str, card: str) -> dict:
    cart = cart_of(user)
    average = average_item_price(cart)
    total = total_price(cart)
    if card == "declined":
        raise PaymentDeclined
    order = {"user": user, "total": total, "average": average, "lines": len(cart)}
    ORDERS.append(order)
    ACCOUNTS[user]["cart"] = []
    # durable: the order is paid
    return order


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        user = body.get("user", "nobody")
        try:
            if self.path == "/accounts":
                self.answer(201, open_account(user))
            elif self.path == "/cart":
                self.answer(200, add_to_cart(user, body["item"], body["quantity"]))
            elif self.path == "/checkout":
                self.answer(200, check_out(user, body["card"]))
            else:
                self.answer(404, {})
        except Refused as refusal:
            self.answer(refusal.status, {"error": str(refusal)})
        except PaymentDeclined as error:
            telemetry.report(error, user, failure="checkout.payment_declined", step="payment")
            self.answer(402, {"error": "declined"})
        except Exception as error:
            telemetry.report(error, user)
            self.answer(500, {"error": type(error).__name__})

    def do_GET(self) -> None:
        self.answer(200, {"orders": len(ORDERS)})

    def answer(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
