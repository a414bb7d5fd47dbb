"""The shop's own tests: what its CI runs before a deploy."""

import os
import unittest

import shop
import telemetry


class Checkout(unittest.TestCase):
    def setUp(self) -> None:
        telemetry.post = lambda *_: {}
        shop.open_account("ada")

    def test_an_order_is_paid(self) -> None:
        shop.add_to_cart("ada", "tea", 2)
        self.assertEqual(shop.check_out("ada", "good")["total"], 900)

    def test_a_declined_card_buys_nothing(self) -> None:
        shop.add_to_cart("ada", "cup", 1)
        with self.assertRaises(shop.PaymentDeclined):
            shop.check_out("ada", "declined")


if __name__ == "__main__":
    os.environ.pop("SERVICE_ONBOARDING_PROOF", None)
    unittest.main()
