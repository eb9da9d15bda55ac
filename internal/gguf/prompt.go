package gguf

import (
	"strings"
)

// promptWords are the words of prompts: common ones, of all lengths.
var promptWords = strings.Fields(`a able about above across after again against air all almost along already also
always among an and animal another answer any apple are around as ask at away back bad ball bank be bear because
become bed before begin behind being below best better between big bird black blue board boat body book both bottle
box boy bread break bring brother brown build but buy by call came can candle car carry cat catch cause center chair
change child city clean clear climb clock close cloud coat cold color come common complete corner could country course
cover cross cry cut dark day deep did different dinner do doctor does dog done door down draw dream dress drink drive
drop dry during each early earth east easy eat edge egg eight either else empty end engine enough even evening ever
every example eye face fact fall family far farm fast father feel feet few field fight fill final find fine fire first
fish five floor flower fly follow food foot for force forest forget form four free fresh friend from front fruit full
game garden gave girl give glass go gold good grass great green grew ground group grow half hand happen hard has hat
have he head hear heart heavy held help her here high hill him his hold hole home horse hot hour house how hundred hunt
ice idea if in inside into iron is island it its job join jump just keep kind king knew know lake land language large
last late laugh lead learn leave left less let letter light like line list listen little live long look lost loud love
low machine made mail make man many map mark market matter may me mean measure meet milk mind minute money month moon
more morning most mother mountain mouth move much music must my name near never new next night no north nose not note
nothing notice now number object ocean of off often oil old on once one only open or orange order other our out over
own page paint pair paper park part pass past path people perhaps person picture piece place plain plan plant play
please point pool poor power press print problem pull push put question quick quiet rain ran reach read ready real red
remember rest rice rich ride right ring river road rock roll room root round run said sail salt same sand saw say
school science sea season second see seed seem sell send sentence set seven several shall shape she ship shoe shop
short should shout show side sign silver simple since sing sister sit six sleep slow small snow so soft soldier some
son song soon sound south space speak spring stand star start state station stay step still stone stood stop store
storm story straight street strong study such sugar summer sun sure surface swim table take talk tall teach tell ten
than that the their them then there these they thin thing think third this those though thousand three through time to
today together told too took top toward town trade train tree true try turn two under understand until up us use
valley very village visit voice wait walk wall want war warm was wash watch water wave way we weather week well went
were west what wheel when where which while white who whole why will wind window winter wish with without woman wonder
wood word work world would write year yellow yes yet you young your`)

// Prompt returns a text of exactly n tokens for the vocabulary of these models,
// the <s> that llama.cpp puts before a prompt not counted: a server that is asked
// for a completion evaluates n+1. It is English words in sentences and paragraphs,
// other ones for another seed, and the same on every machine. A negative n counts
// as 0.
func Prompt(n int, seed uint64) string {
	n = max(n, 0)
	b := make([]byte, 0, n+64)
	i := uint64(0)
	next := func(below int) int {
		i++
		return int(word(seed, i) % uint64(below))
	}
	for len(b) < n {
		// A paragraph.
		for range 3 + next(5) {
			start := len(b)
			for w := range 4 + next(12) {
				switch {
				case w > 0 && next(9) == 0:
					b = append(b, ", "...)
				case w > 0:
					b = append(b, ' ')
				}
				if next(25) == 0 {
					b = append(b, byte('1'+next(9)), byte('0'+next(10)), byte('0'+next(10)))
					continue
				}
				b = append(b, promptWords[next(len(promptWords))]...)
			}
			if c := b[start]; c >= 'a' {
				b[start] = c - 'a' + 'A'
			}
			b = append(b, "...?!"[next(5)], ' ')
		}
		b[len(b)-1] = '\n'
	}
	// Every byte of it is one token.
	b = b[:n]
	if n > 0 && (b[n-1] == ' ' || b[n-1] == '\n') {
		b[n-1] = '.'
	}
	return string(b)
}
