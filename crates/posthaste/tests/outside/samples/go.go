// Reads requests from stdin, one per line, and prints whether the sample in docs/samples/go accepts each request.
package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		body, err := base64.StdEncoding.DecodeString(fields[4])
		if err != nil {
			panic(err)
		}
		fmt.Println(verify(fields[0], fields[1], fields[2], fields[3], body))
	}
}
