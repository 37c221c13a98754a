# Reads requests from stdin, one per line, and prints whether the sample in docs/samples/ruby accepts each request.
require_relative "verify"

$stdin.each_line(chomp: true) do |line|
  *headers, body = line.split("\t", -1)
  puts verify(*headers, body.unpack1("m0"))
end
