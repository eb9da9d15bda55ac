package smoke

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The parts of a JUnit file that CI systems read: the schema of the Jenkins
// xUnit plugin (junit-10.xsd), which others follow.
type (
	junitSuites struct {
		XMLName  xml.Name   `xml:"testsuites"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Time     string     `xml:"time,attr"`
		Suite    junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		Class     string        `xml:"classname,attr"`
		Time      string        `xml:"time,attr"`
		Failure   *junitMessage `xml:"failure,omitempty"`
		Error     *junitMessage `xml:"error,omitempty"`
		Skipped   *junitMessage `xml:"skipped,omitempty"`
		SystemOut string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit returns the report as JUnit XML: a failed check is a failure, one that
// could not run an error, since it is no pass, and one whose card is absent is
// skipped.
func (r *Report) JUnit() ([]byte, error) {
	name := "llpatch " + r.name()
	suite := junitSuite{
		Name: clean(name), Tests: len(r.Checks), Failures: r.count(Wrong), Errors: r.count(NotJudged), Skipped: r.count(Absent),
		Time: junitTime(r.Seconds), Timestamp: r.Started.UTC().Format(time.DateOnly + "T" + time.TimeOnly),
	}
	for _, f := range r.facts() {
		suite.Properties = append(suite.Properties, junitProperty{clean(f.Name), clean(f.Value)})
	}
	seen := map[string]int{}
	for _, c := range r.Checks {
		// Two checks of one name are two cases: readers tell cases apart by it.
		seen[c.Name+c.Place]++
		id := c.Name
		if n := seen[c.Name+c.Place]; n > 1 {
			id = fmt.Sprintf("%s (%d)", c.Name, n)
		}
		one := junitCase{Name: clean(id), Class: clean(strings.ReplaceAll(r.Target+"."+c.Place, " ", "_")), Time: junitTime(c.Seconds)}
		m := &junitMessage{Message: clean(firstLine(c.Detail)), Text: clean(strings.Join(append([]string{c.Detail}, c.Tail...), "\n"))}
		switch c.Verdict {
		case Wrong:
			m.Type = "failed"
			if c.Fault != "" {
				m.Type = clean(c.Fault)
			}
			one.Failure = m
		case NotJudged:
			m.Type = "could not run"
			one.Error = m
		case Absent:
			m.Text = ""
			one.Skipped = m
		default:
			one.SystemOut = clean(c.seen())
		}
		suite.Cases = append(suite.Cases, one)
	}
	b, err := xml.MarshalIndent(junitSuites{
		Name: clean(name), Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Time: suite.Time, Suite: suite,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("smoke report: junit: %w", err)
	}
	return append([]byte(xml.Header), append(b, '\n')...), nil
}

// junitTime is seconds without an exponent.
func junitTime(s float64) string { return fmt.Sprintf("%.3f", s) }

// clean drops what XML 1.0 cannot hold, which a program's output may have: most
// control characters and bytes that are no UTF-8.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, s)
}
