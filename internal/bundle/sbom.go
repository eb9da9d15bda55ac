package bundle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/llpatch/llpatch/internal/spec"
)

// SBOM is what an archive is made of, in CycloneDX 1.6: upstream's tree with each fix, the
// libraries in that tree, the files, what a system gives, and the known defects as VEX. Like the
// archive it holds nothing of the moment.
func (c Content) SBOM(p Packed) ([]byte, error) {
	i := c.Info
	b := cdx.NewBOM()
	// A serial number that tells one archive from another, in the form of a UUID.
	id := sha256.Sum256([]byte("llpatch SBOM " + p.SHA256))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8 of RFC 9562: a form of our own
	b.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	whole := cdx.Component{
		BOMRef: "archive", Type: cdx.ComponentTypeApplication, Name: filepath.Base(p.Archive),
		Version:     fmt.Sprintf("%s-llp%d", i.Tag, i.Revision),
		Description: fmt.Sprintf("%s %s for %s, patched by llpatch", i.Upstream, i.Tag, i.Target),
		Hashes:      sha256Of(p.SHA256),
	}
	b.Metadata = &cdx.Metadata{
		Component: &whole,
		Tools: &cdx.ToolsChoice{Components: &[]cdx.Component{{
			Type: cdx.ComponentTypeApplication, Name: "llpatch",
			Version: i.Llpatch,
		}}},
	}
	all := []cdx.Component{i.source()}
	within := []string{}
	for _, v := range i.Vendored {
		ref := "vendored:" + v.File
		within = append(within, ref)
		all = append(all, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: v.Name, Version: v.Version,
			Description:        v.File + " in upstream's tree",
			ExternalReferences: &[]cdx.ExternalReference{{URL: v.Page, Type: cdx.ERTypeVCS}},
		})
	}
	made := []string{"source"}
	for _, name := range i.Linked {
		ref, at := "linked:"+name, strings.LastIndexByte(name, ' ')
		made = append(made, ref)
		all = append(all, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: name[:max(at, 0)], Version: name[at+1:],
			Description: "linked into the programs",
		})
	}
	files := []string{}
	for _, f := range i.Files {
		ref := "file:" + f.Name
		files = append(files, ref)
		all = append(all, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeFile, Name: f.Name,
			Hashes: sha256Of(i.Sums[f.Name]),
		})
	}
	system := []string{}
	for _, lib := range i.Needs {
		ref := "system:" + lib
		system = append(system, ref)
		all = append(all, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: lib, Scope: cdx.ScopeExcluded,
			Description: "of the system that runs it; not in the archive",
		})
	}
	b.Components = &all
	b.Dependencies = &[]cdx.Dependency{
		{Ref: "archive", Dependencies: &made},
		{Ref: "source", Dependencies: &within},
	}
	for _, f := range files {
		*b.Dependencies = append(*b.Dependencies, cdx.Dependency{Ref: f, Dependencies: &system})
	}
	b.Vulnerabilities = i.vex()
	var out bytes.Buffer
	e := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON)
	e.SetPretty(true)
	err := e.EncodeVersion(b, cdx.SpecVersion1_6)
	return out.Bytes(), err
}

// source is upstream's tree with what the series changes in it.
func (i Info) source() cdx.Component {
	patches := []cdx.Patch{}
	if i.Series != nil {
		for n, fix := range i.Series.In {
			kind := cdx.PatchTypeUnofficial
			if fix.Commit != "" {
				kind = cdx.PatchTypeBackport
			}
			issue := cdx.IssueTypeDefect
			if fix.Group == spec.Security {
				issue = cdx.IssueTypeSecurity
			}
			about := cdx.Issue{ID: fix.Fix, Description: fix.Summary, Type: issue}
			if len(fix.Reports) > 0 {
				about.References = &fix.Reports
			}
			patches = append(patches, cdx.Patch{
				Type: kind, Diff: &cdx.Diff{URL: fmt.Sprintf("PATCHES/%04d-%s.patch", n+1, fix.Fix)}, Resolves: &[]cdx.Issue{about},
			})
		}
	}
	s := cdx.Component{
		BOMRef: "source", Type: cdx.ComponentTypeLibrary, Name: i.Upstream, Version: i.Tag,
		PackageURL: fmt.Sprintf("pkg:github/%s@%s", path.Join(path.Base(path.Dir(spec.UpstreamPage(i.Upstream))),
			i.Upstream), cmp.Or(i.Commit, i.Tag)),
		ExternalReferences: &[]cdx.ExternalReference{{URL: spec.UpstreamPage(i.Upstream), Type: cdx.ERTypeVCS}},
		Properties: &[]cdx.Property{
			{Name: "llpatch:tree", Value: i.Tree},
			{Name: "llpatch:patched_tree", Value: i.Patched},
			{Name: "llpatch:plan", Value: i.Plan},
		},
		Pedigree: &cdx.Pedigree{Patches: &patches},
	}
	return s
}

// vex are the known defects of the build, those among them that a fix cures and those whose code is not in it.
func (i Info) vex() *[]cdx.Vulnerability {
	out := []cdx.Vulnerability{}
	for n, list := range [][]spec.Judged{i.Security.Open, i.Security.Cured, i.Security.Absent} {
		for _, a := range list {
			v := cdx.Vulnerability{
				BOMRef: "defect:" + a.ID, ID: a.ID, Description: a.Effect, Affects: &[]cdx.Affects{{Ref: "source"}},
				Analysis: &cdx.VulnerabilityAnalysis{State: cdx.IASExploitable, Detail: a.String()},
			}
			if at := slices.IndexFunc(a.Aliases, cve); at >= 0 {
				v.ID = a.Aliases[at]
			}
			if a.State != "sure" {
				v.Analysis.State = cdx.IASInTriage
			}
			switch n {
			case 1:
				v.Analysis.State, v.Analysis.Detail = cdx.IASResolvedWithPedigree, "cured by "+a.By
			case 2:
				v.Analysis.State, v.Analysis.Justification, v.Analysis.Detail = cdx.IASNotAffected, cdx.IAJCodeNotPresent,
					"not in these programs, "+a.Why
			}
			if a.Avoid != "" {
				v.Workaround = a.Avoid
			}
			if a.Score > 0 {
				score := a.Score
				v.Ratings = &[]cdx.VulnerabilityRating{{
					Score: &score, Method: cdx.ScoringMethodOther,
					Source: &cdx.Source{Name: a.ScoredBy},
				}}
			}
			out = append(out, v)
		}
	}
	return &out
}

func cve(alias string) bool { return len(alias) > 4 && alias[:4] == "CVE-" }

func sha256Of(sum string) *[]cdx.Hash {
	if sum == "" {
		return nil
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
}

// authorities says where the OpenSSL in the programs looks for those that sign certificates.
func (i Info) authorities() string {
	if i.Windows != "" || !slices.ContainsFunc(i.Linked, func(l string) bool { return strings.HasPrefix(l, "OpenSSL ") }) {
		return ""
	}
	return "HTTPS trusts the authorities in /etc/ssl/certs, as Debian and Ubuntu have them. RHEL and Fedora keep them " +
		"elsewhere: " +
		"there, set SSL_CERT_FILE=/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem.\n"
}
