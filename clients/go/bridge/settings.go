package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"idempotency-ledger.internal/ledger"
)

// settings are those of the process: see options for what each means.
type settings struct {
	consumer, url string
	nats          natsSettings
	kafka         kafkaSettings

	timeout, connectTimeout, keepAlive time.Duration
	answerMax                          int
	result, unknown                    string
	terminal                           []int
	retryAfterMax, releaseDelay        time.Duration
	plainType                          string
	tls                                files
	urlToken                           string

	ledger ledger.Options

	concurrency  int
	grace        time.Duration
	observe, log string
}

type natsSettings struct {
	url, stream, consumer, deadLetters, credentials string
	tls                                             files
}

type kafkaSettings struct {
	brokers, topic, group, retries, deadLetters string
	session                                     time.Duration
	secured                                     bool
	tls                                         files
	sasl, user, password                        string
}

// files are those of TLS.
type files struct{ ca, cert, key string }

// check returns what is wrong with the settings together, by the flag at fault. It never quotes a URL, which may have a
// password.
func (s *settings) check() error {
	if s.consumer == "" {
		return errors.New("--consumer: must be set")
	}
	if (s.nats.url == "") == (s.kafka.brokers == "") {
		return errors.New("--nats-url, --kafka-brokers: exactly one of them must be set: the broker")
	}
	checks := []error{s.checkURL(), s.checkToken(), s.tls.check("url"), s.nats.tls.check("nats"), s.kafka.tls.check("kafka")}
	if s.nats.url != "" {
		checks = append(checks, s.nats.check())
	} else {
		checks = append(checks, s.kafka.check())
	}
	if s.ledger.TokenFile != "" {
		if _, err := token(s.ledger.TokenFile); err != nil {
			checks = append(checks, fmt.Errorf("--ledger-token-file: %w", err))
		}
	}
	if s.observe != "off" {
		if _, _, err := net.SplitHostPort(s.observe); err != nil {
			checks = append(checks, errors.New("--observe-listen: must be HOST:PORT, or off"))
		}
	}
	if slices.ContainsFunc(s.terminal, func(status int) bool { return slices.Contains(retryable, status) }) {
		checks = append(checks, fmt.Errorf("--terminal: %v mean that the message comes later", retryable))
	}
	return errors.Join(checks...)
}

func (s *settings) checkURL() error {
	to, err := url.Parse(s.url)
	switch {
	case s.url == "":
		return errors.New("--url: must be set")
	case err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "":
		return errors.New("--url: must be http://HOST/PATH or https://HOST/PATH")
	case to.User != nil:
		return errors.New("--url: must not have a user or a password; use --url-token-file")
	case to.Fragment != "":
		return errors.New("--url: must not have a fragment, which is never sent")
	case to.Scheme == "http" && s.tls != files{}:
		return errors.New("--url: is reached without TLS, but --url-ca-file or --url-cert-file is set; use https://")
	}
	return nil
}

func (s *settings) checkToken() error {
	if s.urlToken == "" {
		return nil
	}
	if to, err := url.Parse(s.url); err == nil && to.Scheme != "https" && !local(to.Hostname()) {
		return errors.New("--url-token-file: the token would be sent in the clear; use https://")
	}
	if _, err := token(s.urlToken); err != nil {
		return fmt.Errorf("--url-token-file: %w", err)
	}
	return nil
}

// local reports whether a host is this machine.
func local(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

func (n *natsSettings) check() error {
	for each := range strings.SplitSeq(n.url, ",") {
		to, err := url.Parse(strings.TrimSpace(each))
		if err != nil || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, to.Scheme) || to.Host == "" {
			return errors.New("--nats-url: each must be nats://HOST:PORT or tls://HOST:PORT")
		}
	}
	if n.stream == "" {
		return errors.New("--nats-stream: must be set")
	}
	if n.consumer == "" {
		return errors.New("--nats-consumer: must be set")
	}
	if _, err := os.Stat(n.credentials); n.credentials != "" && err != nil {
		return fmt.Errorf("--nats-credentials-file: %w", err)
	}
	return nil
}

func (k *kafkaSettings) check() error {
	for each := range strings.SplitSeq(k.brokers, ",") {
		if _, _, err := net.SplitHostPort(strings.TrimSpace(each)); err != nil {
			return errors.New("--kafka-brokers: each must be HOST:PORT")
		}
	}
	if k.topic == "" {
		return errors.New("--kafka-topic: must be set")
	}
	if (k.sasl == "") != (k.user == "") || (k.sasl == "") != (k.password == "") {
		return errors.New("--kafka-sasl, --kafka-user, --kafka-password-file: are set together, or not at all")
	}
	if k.password != "" {
		if _, err := secret(k.password); err != nil {
			return fmt.Errorf("--kafka-password-file: %w", err)
		}
	}
	return nil
}

// check reports by the flags of a purpose, such as url, which file is wrong.
func (f files) check(purpose string) error {
	if (f.cert == "") != (f.key == "") {
		return fmt.Errorf("--%s-cert-file, --%s-key-file: are set together, or not at all", purpose, purpose)
	}
	if f.cert != "" {
		if _, err := tls.LoadX509KeyPair(f.cert, f.key); err != nil {
			return fmt.Errorf("--%s-cert-file: %w", purpose, err)
		}
	}
	if f.ca != "" {
		if _, err := f.roots(); err != nil {
			return fmt.Errorf("--%s-ca-file: %w", purpose, err)
		}
	}
	return nil
}

func (f files) roots() (*x509.CertPool, error) {
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in PEM", f.ca)
	}
	return pool, nil
}

// config is that of connections which the files verify. The certificate is read again for each of them.
func (f files) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		roots, err := f.roots()
		if err != nil {
			return nil, err
		}
		config.RootCAs = roots
	}
	if f.cert != "" {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			found, err := tls.LoadX509KeyPair(f.cert, f.key)
			return &found, err
		}
	}
	return config, nil
}

// secret is the content of a file, without the white space around it.
func secret(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	found := strings.TrimSpace(string(content))
	if found == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return found, nil
}

// token is the bearer token of a file.
func token(path string) (string, error) {
	found, err := secret(path)
	if err == nil && !visible(found) {
		err = fmt.Errorf("%s has more than a token in visible ASCII characters", path)
	}
	return found, err
}

// visible reports whether a text has nothing but visible ASCII characters.
func visible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= 0x20 || r > 0x7E })
}

// named is the flag of a field that the client of the ledger reports as wrong.
func named(err error) error {
	var invalid *ledger.InvalidFieldError
	if !errors.As(err, &invalid) {
		return err
	}
	flags := map[string]string{
		"key.consumer": "--consumer", "endpoint": "--ledger", "ca_file": "--ledger-ca-file", "token_file": "--ledger-token-file",
		"client_cert_file": "--ledger-cert-file", "lease": "--lease",
	}
	if name, known := flags[invalid.Field]; known {
		return fmt.Errorf("%s: %s", name, invalid.Bound)
	}
	return err
}
