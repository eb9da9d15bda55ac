// Package memory says what a program's memory does: it samples host and device
// memory while a program works, matches it to the program's own progress, fits a
// line with its uncertainty, and judges it flat, bounded or growing. It also
// forecasts what a model needs from the model's own numbers.
package memory
