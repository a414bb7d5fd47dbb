# Judges signed requests by the text of Standard Webhooks: a JSON array of them on stdin, one of verdicts on stdout.
require "json"
require "openssl"

def accepts(request)
  id, at, signatures = request["headers"].values_at("webhook-id", "webhook-timestamp", "webhook-signature")
  return false if (Time.now.to_i - at.to_i).abs > 300
  key = request["secret"].delete_prefix("whsec_").unpack1("m")
  wanted = "v1," + [OpenSSL::HMAC.digest("SHA256", key, "#{id}.#{at}.#{request["body"]}")].pack("m0")
  signatures.split(" ").any? { |signature| OpenSSL.secure_compare(signature, wanted) }
end

puts JSON.generate(JSON.parse(STDIN.read).map { |request| accepts(request) })
