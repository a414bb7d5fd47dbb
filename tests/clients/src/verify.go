// Judges signed requests by the text of Standard Webhooks: a JSON array of them on stdin, one of verdicts on stdout.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"
)

type request struct {
	Secret, Body string
	Headers      map[string]string
}

func (r request) accepted() bool {
	id, at := r.Headers["webhook-id"], r.Headers["webhook-timestamp"]
	seconds, fault := strconv.ParseInt(at, 10, 64)
	if age := time.Now().Unix() - seconds; fault != nil || age > 300 || age < -300 {
		return false
	}
	key, fault := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Secret, "whsec_"))
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(id + "." + at + "." + r.Body))
	wanted := []byte("v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	for _, signature := range strings.Split(r.Headers["webhook-signature"], " ") {
		if hmac.Equal([]byte(signature), wanted) {
			return fault == nil
		}
	}
	return false
}

func main() {
	requests, verdicts := []request{}, []bool{}
	if fault := json.NewDecoder(os.Stdin).Decode(&requests); fault != nil {
		panic(fault)
	}
	for _, one := range requests {
		verdicts = append(verdicts, one.accepted())
	}
	json.NewEncoder(os.Stdout).Encode(verdicts)
}
