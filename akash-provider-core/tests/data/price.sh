#!/bin/bash
# A price script: reads one line of JSON, prints one number. Prices are per block, in units of AKASH_DENOM.
# It needs bash and awk only. The fields of a unit come in a fixed order: `memory` is the first of each and
# `ip_lease_quantity` the last.
set -eu

if [ -z "${AKASH_DENOM:-}" ]; then
    echo "AKASH_DENOM is not set" >&2
    exit 1
fi

read -r line

printf '%s\n' "$line" | awk '
BEGIN {
    price["cpu"] = 0.10        # per thousandth of a core
    price["memory"] = 0.02     # per byte
    price["units"] = 0.50      # per GPU
    price["endpoint_quantity"] = 0.02
    price["ip_lease_quantity"] = 5
    class["ephemeral"] = 0.01  # per byte
    class["beta2"] = 0.02
    class["beta3"] = 0.03
    precision = 6
}
{
    field = "\"(memory|cpu|units|class|size|count|endpoint_quantity|ip_lease_quantity|price_precision)\":(\"[^\"]*\"|[0-9]+)"
    while (match($0, field)) {
        token = substr($0, RSTART, RLENGTH)
        $0 = substr($0, RSTART + RLENGTH)
        split(token, part, "\"")
        name = part[2]
        value = substr(token, length(name) + 4)
        if (name == "memory") unit = 0
        if (name == "class") {
            kind = part[4]
        } else if (name == "size") {
            if (!(kind in class)) {
                print "no price for storage class " kind > "/dev/stderr"
                exit 1
            }
            unit += value * class[kind]
        } else if (name == "count") {
            count = value
        } else if (name == "price_precision") {
            precision = value
        } else {
            unit += value * price[name]
        }
        if (name == "ip_lease_quantity") total += unit * count
    }
    printf "%.*f\n", precision, total
}'
