package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
)

// The tools that files are read with: so every limit of the executor holds, and what
// they refuse is refused here.
const (
	readTool = "read"
	listTool = "list_files"
)

// maxListed is how many files resources/list names for each root.
const maxListed = 500

// template is the resource template of an executor's files. Where there are several
// executors, its name is the host.
func (m member) template() string { return "file://" + m.prefix + "/{+path}" }

// applyFiles makes the server's templates those of the table. c.applying is held.
func (c *client) applyFiles(t *table) {
	want := map[string]member{}
	for _, m := range t.members {
		if m.files {
			want[m.template()] = m
		}
	}
	for uri := range c.places {
		if _, ok := want[uri]; !ok {
			delete(c.places, uri)
			c.server.RemoveResourceTemplates(uri)
		}
	}
	for uri, m := range want {
		if c.places[uri].x == m.x {
			continue
		}
		c.places[uri] = m
		name := "files"
		if m.prefix != "" {
			name = m.prefix
		}
		c.server.AddResourceTemplate(&mcp.ResourceTemplate{Name: name, URITemplate: uri,
			Description: "A file under " + strings.Join(m.roots, ", ")},
			func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return c.readFile(ctx, m, req.Params.URI)
			})
	}
}

// fileURI is the URI of a path of the executor's.
func (m member) fileURI(p string) string {
	if m.x.Info().OS == "windows" {
		p = strings.ReplaceAll(p, `\`, "/")
	}
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return (&url.URL{Scheme: "file", Host: m.prefix, Path: p}).String()
}

// filePath is the path that a URI means on the executor.
func (m member) filePath(uri string) (string, error) {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "", invalid("uri: %v; want one like %s", err, m.fileURI("/path"))
	case u.Scheme != "file" || u.Host != m.prefix || u.Path == "" || u.RawQuery != "" || u.Fragment != "":
		return "", invalid("uri %q: want one like %s; write ? and # as %%3F and %%23", uri, m.fileURI("/path"))
	}
	p := u.Path
	if len(p) > 2 && p[2] == ':' && m.x.Info().OS == "windows" {
		p = p[1:]
	}
	return p, nil
}

type readAnswer struct {
	Content   string `json:"content"`
	SizeBytes int64  `json:"size_bytes"`
	Truncated bool   `json:"truncated"`
	Binary    bool   `json:"binary"`
	MIMEType  string `json:"mime_type"`
	Encoding  string `json:"encoding"`
}

// readFile reads one file: a text as text, anything else as a blob.
func (c *client) readFile(ctx context.Context, m member, uri string) (*mcp.ReadResourceResult, error) {
	p, err := m.filePath(uri)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	input, err := json.Marshal(map[string]any{"path": saidPath(p), "full": true})
	if err != nil {
		return nil, err
	}
	h := c.hand(m.x)
	r, err := h.do(ctx, readTool, input)
	if err != nil {
		return nil, failure(uri, err)
	}
	if r.Error != nil {
		if r.Error.Reason == protocol.CodeNotFound.String() {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		return nil, invalid("read %s: %s: %s", uri, r.Error.Reason, r.Error.Message)
	}
	var answer readAnswer
	if err := json.Unmarshal(r.Structured, &answer); err != nil {
		return nil, fmt.Errorf("read %s: the executor's answer: %w", uri, err)
	}
	if limit := c.g.opts.MaxResourceBytes; answer.SizeBytes > limit {
		return nil, invalid("read %s: it has %d bytes, and at most %d are read as a resource; read parts of it with the tool %s", uri, answer.SizeBytes, limit, readTool)
	}
	contents := &mcp.ResourceContents{URI: uri, MIMEType: answer.MIMEType}
	for _, block := range r.Content {
		if block.Type == protocol.ContentImage {
			contents.Blob, contents.MIMEType = block.Data, block.MIMEType
		}
	}
	switch {
	case contents.Blob != nil:
	case answer.Binary || answer.Truncated:
		if contents.Blob, err = h.bytes(ctx, p, c.g.opts.MaxResourceBytes); err != nil {
			return nil, failure(uri, err)
		}
		if !answer.Binary { // a text that is too long for one result
			contents.Text, contents.Blob = strings.ToValidUTF8(string(contents.Blob), "\uFFFD"), nil
		}
	default:
		contents.Text = answer.Content
	}
	if contents.MIMEType == "" {
		contents.MIMEType = "text/plain"
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

// bytes are those of a file that the read tool has shown to be within the roots.
func (h *hand) bytes(ctx context.Context, p string, limit int64) ([]byte, error) {
	if !h.x.Capabilities().Has(protocol.CapabilityProcess) || h.x.Info().OS == "windows" {
		return nil, protocol.Errorf(protocol.CodeCapabilityUnavailable, "a file that is not text can only be read where the executor runs processes (cat)")
	}
	s, err := h.get(ctx)
	if err != nil {
		return nil, err
	}
	proc, err := s.Process(ctx, protocol.ProcessStartParams{Argv: catArgv(p), OnFull: protocol.OnFullBlock})
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _, _ = proc.Terminate(h.c.ctx, nil) })()
	raw, err := io.ReadAll(io.LimitReader(proc.Stdout(), limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		_, _ = proc.Terminate(ctx, nil)
		return nil, protocol.Errorf(protocol.CodePayloadTooLarge, "the file has more than %d bytes", limit)
	}
	state, err := proc.Wait(ctx)
	if err == nil && (state.ExitCode == nil || *state.ExitCode != 0) {
		err = protocol.Errorf(protocol.CodeInternalError, "cat could not read it")
	}
	return raw, err
}

// failure is an error of a resource for the client.
func failure(uri string, err error) error {
	var e *protocol.Error
	if errors.As(err, &e) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("read %s: %s: %s", uri, e.Reason(), e.Message)}
	}
	return fmt.Errorf("read %s: %w", uri, err)
}

// listResources adds the files at the top of the roots to what the server knows.
func (c *client) listResources(ctx context.Context, known mcp.Result) (mcp.Result, error) {
	out, ok := known.(*mcp.ListResourcesResult)
	if !ok {
		return known, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	for _, m := range c.g.table().members {
		if !m.files || !m.x.Connected() {
			continue
		}
		for _, root := range m.roots {
			list, err := c.listRoot(ctx, m, root)
			if err != nil {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				c.g.log.Warn("files of an executor cannot be listed", zap.String("executor", m.x.ID()), zap.Error(err))
				continue
			}
			out.Resources = append(out.Resources, list...)
		}
	}
	return out, nil
}

func (c *client) listRoot(ctx context.Context, m member, root string) ([]*mcp.Resource, error) {
	input, err := json.Marshal(map[string]any{"path": saidPath(root)})
	if err != nil {
		return nil, err
	}
	r, err := c.hand(m.x).do(ctx, listTool, input)
	if err != nil {
		return nil, err
	}
	if r.Error != nil {
		return nil, fmt.Errorf("%s: %s", r.Error.Reason, r.Error.Message)
	}
	var answer struct {
		Entries []struct {
			Path string `json:"path"`
			Type string `json:"type"`
			Size int64  `json:"size"`
		} `json:"entries"`
	}
	if err := json.Unmarshal(r.Structured, &answer); err != nil {
		return nil, fmt.Errorf("the executor's answer: %w", err)
	}
	var list []*mcp.Resource
	for _, e := range answer.Entries {
		if e.Type != "file" || len(list) == maxListed {
			continue
		}
		full := heardPath(e.Path)
		name := path.Base(full)
		if !strings.HasPrefix(full, "/") && !strings.Contains(full, ":") {
			full = path.Join(strings.ReplaceAll(m.roots[0], `\`, "/"), full) // relative to the workspace
		}
		list = append(list, &mcp.Resource{URI: m.fileURI(full), Name: saidPath(name), Size: e.Size})
	}
	return list, nil
}
