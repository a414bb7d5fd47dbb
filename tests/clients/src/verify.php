<?php
// Judges signed requests by the text of Standard Webhooks: a JSON array of them on stdin, one of verdicts on stdout.
function accepts(array $request): bool
{
    ["webhook-id" => $id, "webhook-timestamp" => $at, "webhook-signature" => $signatures] = $request["headers"];
    if (abs(time() - (int) $at) > 300) {
        return false;
    }
    $key = base64_decode(substr($request["secret"], strlen("whsec_")));
    $wanted = "v1," . base64_encode(hash_hmac("sha256", "$id.$at.{$request['body']}", $key, true));
    foreach (explode(" ", $signatures) as $signature) {
        if (hash_equals($wanted, $signature)) {
            return true;
        }
    }
    return false;
}

echo json_encode(array_map("accepts", json_decode(file_get_contents("php://stdin"), true)));
