// Reads a published log and the proofs of its gateway with golang.org/x/mod alone.
//
//	published_log FOLDER VKEY PROOFS OLD_CHECKPOINT
//
// PROOFS holds the gateway's answers as JSON: of /v1/tree/inclusion, a list, and of
// /v1/tree/consistency from OLD_CHECKPOINT. Whatever does not verify is named, and ends it with 1.
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const tileHeight = 8

// folder reads tiles where C2SP tlog-tiles lays them out, which names no height in a path.
type folder string

func (folder) Height() int { return tileHeight }

func (folder) SaveTiles([]tlog.Tile, [][]byte) {}

func (f folder) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var contents [][]byte
	for _, tile := range tiles {
		path := strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/", tileHeight), "tile/", 1)
		content, err := os.ReadFile(filepath.Join(string(f), path))
		if err != nil {
			return nil, err
		}
		contents = append(contents, content)
	}
	return contents, nil
}

type inclusion struct {
	Sequence string   `json:"ec_sequence_number"`
	Row      string   `json:"row"`
	Path     []string `json:"path"`
}

type proofs struct {
	Inclusions  []inclusion `json:"inclusions"`
	Consistency struct {
		Path []string `json:"path"`
	} `json:"consistency"`
}

// head returns the tree of a checkpoint that the key of vkey has signed.
func head(path string, vkey string) tlog.Tree {
	signed := read(path)
	verifier, err := note.NewVerifier(vkey)
	expect("the key", err)
	opened, err := note.Open(signed, note.VerifierList(verifier))
	expect("the signature", err)
	lines := strings.Split(opened.Text, "\n")
	if len(lines) < 4 || lines[0] != verifier.Name() {
		log.Fatalf("the checkpoint is of another log: %q", opened.Text)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	expect("the size", err)
	root, err := tlog.ParseHash(lines[2])
	expect("the root", err)
	return tlog.Tree{N: size, Hash: root}
}

func hashes(path []string) []tlog.Hash {
	parsed := make([]tlog.Hash, len(path))
	for i, text := range path {
		content, err := hex.DecodeString(text)
		expect("a hash", err)
		copy(parsed[i][:], content)
	}
	return parsed
}

func read(path string) []byte {
	content, err := os.ReadFile(path)
	expect("a file", err)
	return content
}

func expect(what string, err error) {
	if err != nil {
		log.Fatalf("%s: %v", what, err)
	}
}

func main() {
	log.SetFlags(0)
	published, vkey, old := os.Args[1], os.Args[2], head(os.Args[4], os.Args[2])
	tree := head(filepath.Join(published, "checkpoint"), vkey)
	tiles := tlog.TileHashReader(tree, folder(published))

	root, err := tlog.TreeHash(tree.N, tiles)
	expect("the tiles", err)
	if root != tree.Hash {
		log.Fatalf("the tiles: their root is %v, not %v", root, tree.Hash)
	}

	var stated proofs
	expect("the proofs", json.NewDecoder(bytes.NewReader(read(os.Args[3]))).Decode(&stated))
	for _, proof := range stated.Inclusions {
		sequence, err := strconv.ParseInt(proof.Sequence, 10, 64)
		expect("a sequence", err)
		leaf, index := tlog.RecordHash([]byte(proof.Row)), sequence-1
		expect("inclusion", tlog.CheckRecord(hashes(proof.Path), tree.N, tree.Hash, index, leaf))
		own, err := tlog.ProveRecord(tree.N, index, tiles)
		expect("inclusion by tiles", err)
		expect("inclusion by tiles", tlog.CheckRecord(own, tree.N, tree.Hash, index, leaf))
	}

	path := hashes(stated.Consistency.Path)
	expect("consistency", tlog.CheckTree(path, tree.N, tree.Hash, old.N, old.Hash))
	own, err := tlog.ProveTree(tree.N, old.N, tiles)
	expect("consistency by tiles", err)
	expect("consistency by tiles", tlog.CheckTree(own, tree.N, tree.Hash, old.N, old.Hash))
	fmt.Printf("%d rows, %d proved, grown from %d\n", tree.N, len(stated.Inclusions), old.N)
}
