package embedded

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestParsePktLineTakesTheLengthsOfTheProtocol(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		want     []byte // nil is a flush packet
		rest     int
		fails    string
	}{
		{name: "a flush packet", in: "0000next", rest: 4},
		{name: "an empty line is no flush packet", in: "0004next", want: []byte{}, rest: 4},
		{name: "one byte", in: "0005anext", want: []byte("a"), rest: 4},
		{name: "a length in lower case", in: "001f" + strings.Repeat("x", 27), want: bytes.Repeat([]byte("x"), 27)},
		{name: "a length in upper case", in: "001F" + strings.Repeat("x", 27), want: bytes.Repeat([]byte("x"), 27)},
		{name: "each place of the length", in: "1234" + strings.Repeat("x", 0x1230), want: bytes.Repeat([]byte("x"), 0x1230)},
		{name: "the longest line", in: "fff0" + strings.Repeat("x", 65516), want: bytes.Repeat([]byte("x"), 65516)},
		{name: "one byte more", in: "fff1" + strings.Repeat("x", 65517), fails: "length 65521"},
		{name: "a delimiter of protocol v2", in: "0001", fails: "length 1"},
		{name: "an end of protocol v2", in: "0002", fails: "length 2"},
		{name: "a length without its own digits", in: "0003", fails: "length 3"},
		{name: "a sign", in: "+005a", fails: `length "+005"`},
		{name: "a letter after f", in: "000gxxxxxxxxxxxx", fails: `length "000g"`},
		{name: "a line that ends early", in: "0006a", fails: "ends within a line"},
		{name: "a line that ends after its length", in: "0005", fails: "ends within a line"},
	} {
		r := strings.NewReader(c.in)
		got, err := readPkt(r)
		if c.fails != "" {
			if !errors.Is(err, errPktLine) || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if (got == nil) != (c.want == nil) || !bytes.Equal(got, c.want) || r.Len() != c.rest {
			t.Errorf("%s: %d bytes, nil=%v, with %d left; want %d bytes, %d left", c.name, len(got), got == nil, r.Len(), len(c.want), c.rest)
		}
	}
	for in, want := range map[string]error{"": io.EOF, "000": io.ErrUnexpectedEOF} {
		if _, err := readPkt(strings.NewReader(in)); !errors.Is(err, want) {
			t.Errorf("%q: error %v, want %v", in, err, want)
		}
	}
}

func TestParsePktLineReadsHexDigitsAndNoOtherByte(t *testing.T) {
	t.Parallel()
	want := map[byte]int{}
	for i, c := range []byte("0123456789abcdef") {
		want[c] = i
		want[bytes.ToUpper([]byte{c})[0]] = i
	}
	for i := range 256 {
		digit, ok := want[byte(i)]
		if !ok {
			digit = -1
		}
		if got := hexDigit(byte(i)); got != digit {
			t.Errorf("%q: got %d, want %d", rune(i), got, digit)
		}
	}
}
