# Verifies the signature of a webhook with Ruby's standard library.
require "openssl"

def verify(secret, id, timestamp, signatures, body)
  key = secret.delete_prefix("whsec_").unpack1("m0")
  return false if key.bytesize < 24 || (Time.now.to_i - Integer(timestamp, 10)).abs > 300

  mac = OpenSSL::HMAC.digest("SHA256", key, "#{id}.#{timestamp}.".b + body.b)
  expected = "v1,#{[mac].pack("m0")}"
  signatures.split(" ").any? { |given| OpenSSL.secure_compare(given, expected) }
rescue ArgumentError # the secret is not base64, or the timestamp is not a number
  false
end
