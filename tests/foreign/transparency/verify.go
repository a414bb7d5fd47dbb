// Verifies checkpoint, tiles and proofs of a running service with the packages of Go's checksum database.
package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
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

func get(url string) []byte { return must(io.ReadAll(must(http.Get(url)).Body)) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func proof(url string) (found struct{ Hashes []tlog.Hash }) {
	must(0, json.Unmarshal(get(url), &found))
	return found
}

// Arguments: base URL of the log, vkey, a position with the leaf of its event in hex, an older size.
func main() {
	var position, old, size int64
	base, leaf := os.Args[1], tlog.RecordHash(must(hex.DecodeString(os.Args[4])))
	must(fmt.Sscan(os.Args[3]+" "+os.Args[5], &position, &old))
	signed := must(note.Open(get(base+"/checkpoint"), note.VerifierList(must(note.NewVerifier(os.Args[2])))))
	lines := strings.Split(signed.Text, "\n")
	must(fmt.Sscan(lines[1], &size))
	root := must(tlog.ParseHash(lines[2]))
	reader := tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, tiles{base}) // it checks each tile against the root
	included := proof(fmt.Sprintf("%s/proof/inclusion?position=%d&size=%d", base, position, size)).Hashes
	must(0, tlog.CheckRecord(included, size, root, position-1, leaf))
	growth := proof(fmt.Sprintf("%s/proof/consistency?from=%d&to=%d", base, old, size)).Hashes
	must(0, tlog.CheckTree(growth, size, root, old, must(tlog.TreeHash(old, reader))))
	same := fmt.Sprint(must(tlog.ProveRecord(size, position-1, reader)), must(tlog.ProveTree(size, old, reader)))
	stored := must(reader.ReadHashes([]int64{tlog.StoredHashIndex(0, position-1)}))[0] == leaf
	fmt.Println(lines[0], size, root, len(signed.UnverifiedSigs), same == fmt.Sprint(tlog.RecordProof(included), tlog.TreeProof(growth)), stored)
}
