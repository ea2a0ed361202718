package cli

import (
	"bytes"
	"fmt"
	"testing"
)

func TestTable_AlignsWideCharacters(t *testing.T) {
	var b bytes.Buffer
	tab := NewTable(&b, 2)
	fmt.Fprint(tab, "ID\tNAME\tSTATE\n1\tAnn\tactive\n2\t李小龙\tbanned\n3\tJose\u0301\tactive\n4\t한글\t\nno cells\n5\tｱｲ\tlong last cell\n")
	want := "" +
		"ID  NAME    STATE\n" +
		"1   Ann     active\n" +
		"2   李小龙  banned\n" + // six cells
		"3   Jose\u0301    active\n" +
		"4   한글    \n" +
		"no cells\n" +
		"5   ｱｲ      long last cell\n"
	if err := tab.Flush(); err != nil || b.String() != want {
		t.Errorf("got\n%swant\n%s(%v)", b.String(), want, err)
	}
	b.Reset()
	fmt.Fprint(tab, "A\tB\n") // the next table has other widths
	if err := tab.Flush(); err != nil || b.String() != "A  B\n" {
		t.Errorf("got %q (%v)", b.String(), err)
	}
}
