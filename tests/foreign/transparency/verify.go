// Verifies checkpoint, tiles and proofs of a running service with the packages of Go's checksum database.
package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type tiles struct{ base string }

func (tiles) Height() int                     { return 8 }
func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}
func (t tiles) ReadTiles(wanted []tlog.Tile) (found [][]byte, err error) {
	for _, tile := range wanted {
		found = append(found, get(t.base+"/tile/"+strings.TrimPrefix(tile.Path(), "tile/8/")))
	}
	return found, nil
}

func get(url string) []byte {
	answer := must(http.Get(url))
	body := must(io.ReadAll(answer.Body))
	if answer.StatusCode != 200 {
		panic(url + ": " + answer.Status)
	}
	return body
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func proofOf(url string) (hashes []tlog.Hash) {
	var proof struct{ Hashes []string }
	if err := json.Unmarshal(get(url), &proof); err != nil {
		panic(err)
	}
	for _, text := range proof.Hashes {
		hashes = append(hashes, must(tlog.ParseHash(text)))
	}
	return hashes
}

// Arguments: base URL of the log, vkey, a position with the leaf of its event in hex, an older size.
func main() {
	base, position, old := os.Args[1], must(strconv.ParseInt(os.Args[3], 10, 64)), must(strconv.ParseInt(os.Args[5], 10, 64))
	signed := must(note.Open(get(base+"/checkpoint"), note.VerifierList(must(note.NewVerifier(os.Args[2])))))
	lines := strings.Split(signed.Text, "\n")
	size, root := must(strconv.ParseInt(lines[1], 10, 64)), must(tlog.ParseHash(lines[2]))
	reader := tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, tiles{base})
	leaf := tlog.RecordHash(must(hex.DecodeString(os.Args[4])))
	proof := proofOf(fmt.Sprintf("%s/proof/inclusion?position=%d&size=%d", base, position, size))
	if err := tlog.CheckRecord(proof, size, root, position-1, leaf); err != nil {
		panic(err)
	}
	oldRoot := must(tlog.TreeHash(old, reader)) // every tile is checked against the checkpoint
	growth := proofOf(fmt.Sprintf("%s/proof/consistency?from=%d&to=%d", base, old, size))
	if err := tlog.CheckTree(growth, size, root, old, oldRoot); err != nil {
		panic(err)
	}
	same := fmt.Sprint(must(tlog.ProveRecord(size, position-1, reader))) == fmt.Sprint(tlog.RecordProof(proof)) &&
		fmt.Sprint(must(tlog.ProveTree(size, old, reader))) == fmt.Sprint(tlog.TreeProof(growth))
	stored := must(reader.ReadHashes([]int64{tlog.StoredHashIndex(0, position-1)}))[0] == leaf
	fmt.Println(lines[0], size, base64.StdEncoding.EncodeToString(root[:]), len(signed.UnverifiedSigs), same, stored)
}
