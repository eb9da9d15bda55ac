package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jstemmer/go-junit-report/v2/junit"
)

// Case is one test of a JUnit file: passed, or with one of the others.
type Case struct {
	Name, Class, Output      string
	Seconds                  float64
	Failed, Errored, Skipped *Problem
}

// Problem is why a test did not pass; the message is its text's first line.
type Problem struct{ Type, Text string }

// JUnit returns one suite as JUnit XML, as CI systems read it.
func JUnit(name string, began time.Time, seconds float64, facts []Fact, cases []Case) ([]byte, error) {
	suite := junit.Testsuite{
		Name: clean(name), Time: decimal(seconds),
		Timestamp: began.UTC().Format("2006-01-02T15:04:05"),
	}
	for _, f := range facts {
		suite.AddProperty(clean(f.Name), clean(f.Value))
	}
	result := func(p *Problem) *junit.Result {
		if p == nil {
			return nil
		}
		first, _, _ := strings.Cut(p.Text, "\n")
		return &junit.Result{Type: clean(p.Type), Message: clean(first), Data: clean(p.Text)}
	}
	seen := map[string]int{}
	for _, c := range cases {
		// Two of one name are two cases: readers tell them apart by it.
		if seen[c.Class+" "+c.Name]++; seen[c.Class+" "+c.Name] > 1 {
			c.Name = fmt.Sprintf("%s (%d)", c.Name, seen[c.Class+" "+c.Name])
		}
		one := junit.Testcase{
			Name: clean(c.Name), Classname: clean(c.Class), Time: decimal(c.Seconds),
			Failure: result(c.Failed), Error: result(c.Errored), Skipped: result(c.Skipped),
		}
		if c.Output != "" {
			one.SystemOut = &junit.Output{Data: clean(c.Output)}
		}
		suite.AddTestcase(one)
	}
	all := junit.Testsuites{Name: suite.Name, Time: suite.Time}
	all.AddSuite(suite)
	b := bytes.NewBufferString(xml.Header)
	err := all.WriteXML(b)
	return b.Bytes(), err
}

func decimal(seconds float64) string { return fmt.Sprintf("%.3f", seconds) }

// clean drops what XML 1.0 cannot hold, which a program's output may have: most control characters and bytes that
// are no UTF-8.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, s)
}
