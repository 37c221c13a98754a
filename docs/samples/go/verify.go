// Verifies the signature of a webhook with Go's standard library.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

func verify(secret, id, timestamp, signatures string, body []byte) bool {
	key, badKey := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	sent, badTime := strconv.ParseInt(timestamp, 10, 64)
	age := time.Since(time.Unix(sent, 0))
	if badKey != nil || badTime != nil || len(key) < 24 || age.Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for _, given := range strings.Split(signatures, " ") {
		if hmac.Equal([]byte(given), expected) {
			return true
		}
	}
	return false
}
