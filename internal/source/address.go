package source

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// AddressFrom returns the address of a source as it is to be used: a relative
// path starts at dir, the folder that holds recipes/. What is none stays itself.
func AddressFrom(dir, address string) (string, error) {
	if address == "" || strings.Contains(address, "://") || filepath.IsAbs(address) {
		return address, nil
	}
	path, err := filepath.Abs(filepath.Join(dir, filepath.FromSlash(address)))
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); err != nil && scpLike.MatchString(address) {
		return address, nil
	}
	return path, nil
}

var userInfo = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@`)

// redacted is an address as it may be shown and recorded: without its password,
// and over HTTP, where a token may stand alone, without the user as well.
func redacted(address string) string {
	if !userInfo.MatchString(address) {
		return address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "http" || u.Scheme == "https" {
		return userInfo.ReplaceAllString(address, "${1}xxxxx@")
	}
	return u.Redacted()
}

// plain writes the address in an error of net/http as it may be shown.
func plain(err error) error {
	if u := new(url.Error); errors.As(err, &u) {
		return fmt.Errorf("%s %s: %w", u.Op, redacted(u.URL), u.Err)
	}
	return err
}
