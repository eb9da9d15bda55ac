package evidence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
)

// parseBench reads what llama-bench -o json prints. compute-sanitizer prints its
// own lines between, which begin with =========.
func parseBench(out []byte) ([]Test, error) {
	var own []byte
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte("=========")) {
			own = append(own, line...)
		}
	}
	if len(bytes.TrimSpace(own)) == 0 {
		return nil, errors.New("llama-bench printed no figures")
	}
	var tests []Test
	if err := json.Unmarshal(own, &tests); err != nil {
		return nil, fmt.Errorf("llama-bench printed no JSON: %w", err)
	}
	if len(tests) == 0 {
		return nil, errors.New("llama-bench made no test")
	}
	for _, t := range tests {
		if !isSpeed(t.TPS) || t.Prompt < 0 || t.Gen < 0 {
			return nil, errors.New("llama-bench printed a test without a speed")
		}
	}
	return tests, nil
}

// speeds are tokens a second over all tests of prompts alone, and over all of
// answers alone.
func speeds(tests []Test) (pp, tg *float64) {
	speed := func(of func(Test) int) *float64 {
		n, secs, counted, only := 0, 0.0, 0, 0.0
		for _, t := range tests {
			if k := of(t); k > 0 {
				n, secs, counted, only = n+k, secs+float64(k)/t.TPS, counted+1, t.TPS
			}
		}
		switch counted {
		case 0:
			return nil
		case 1:
			return &only // as it was printed
		}
		v := float64(n) / secs
		return &v
	}
	pp = speed(func(t Test) int {
		if t.Gen > 0 {
			return 0
		}
		return t.Prompt
	})
	tg = speed(func(t Test) int {
		if t.Prompt > 0 {
			return 0
		}
		return t.Gen
	})
	return pp, tg
}

// maxKept bounds the lines that are kept of one run.
const maxKept = 100

// output passes on each line of a program's output, from its log: the first head
// lines, which are the command line, and the last are run's own.
func output(log string, head int, each func(line string)) error {
	f, err := os.Open(log)
	if err != nil {
		return fmt.Errorf("the program's log: %w", err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	before, n := "", 0
	for sc.Scan() {
		if n++; n > head+1 {
			each(before)
		}
		before = sc.Text()
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("the program's log: %w", err)
	}
	return nil
}

// kept returns the lines that match one of the expressions.
func kept(log string, head int, keep []*regexp.Regexp) (lines []string, err error) {
	if len(keep) == 0 {
		return nil, nil
	}
	more := 0
	err = output(log, head, func(line string) {
		for _, re := range keep {
			if re.MatchString(line) {
				if len(lines) < maxKept {
					lines = append(lines, line)
				} else {
					more++
				}
				return
			}
		}
	})
	if more > 0 {
		lines = append(lines, fmt.Sprintf("(and %d lines more)", more))
	}
	return lines, err
}
