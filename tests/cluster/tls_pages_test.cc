// SPDX-License-Identifier: Apache-2.0
#include "cluster/tls_pages.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/rebalance_pages.h"
#include "exports/metrics_server.h"
#include "support/manual_clock.h"
#include "support/temp_tree.h"

namespace forestall::cluster {
namespace {

using std::chrono::seconds;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Freed {
  void operator()(SSL_CTX* each) const { SSL_CTX_free(each); }
  void operator()(SSL* each) const { SSL_free(each); }
  void operator()(EVP_PKEY* each) const { EVP_PKEY_free(each); }
  void operator()(X509* each) const { X509_free(each); }
};

// A certificate with this name and its key, in two files.
void write_pair(const std::string& directory, const std::string& name) {
  const std::unique_ptr<EVP_PKEY, Freed> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, Freed> made(X509_new());
  X509_gmtime_adj(X509_getm_notBefore(made.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(made.get(), key.get());
  X509_sign(made.get(), key.get(), EVP_sha256());
  const auto write = [&](const char* file, auto put) {
    FILE* const out = std::fopen((directory + "/" + file).c_str(), "w");
    ASSERT_NE(out, nullptr);
    put(out);
    std::fclose(out);
  };
  write("cert", [&](FILE* out) { PEM_write_X509(out, made.get()); });
  write("key", [&](FILE* out) {
    PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

UniqueFd connected_to(std::uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

struct Got {
  std::string name;  // of the server's certificate
  std::string text;  // the whole answer; empty: no handshake
};

class TlsPagesTest : public ::testing::Test {
 protected:
  void serve(TlsOptions options, std::size_t bytes = 3) {
    auto pages = TlsPages::create(std::move(options), [this](const std::string& problem) {
      const std::lock_guard lock(mutex_);
      problems_.push_back(problem);
    });
    ASSERT_TRUE(pages) << pages.error().text();
    server_.reset();
    server_ = exports::MetricsServer::start(
                  "127.0.0.1:0",
                  [bytes](const exports::HttpRequest& request) {
                    return exports::HttpAnswer{request.path == "/metrics" ? 200 : 404,
                                               exports::kPlainType, std::string(bytes, 'x')};
                  },
                  [this, tls = *pages](int fd) { return tls->transport(fd, clock_.now()); })
                  .value();
  }
  Got get(const std::string& request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
          int max_version = TLS1_3_VERSION, const char* ciphers = nullptr,
          const char* server_name = nullptr) {
    const std::unique_ptr<SSL_CTX, Freed> context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_max_proto_version(context.get(), max_version);
    if (ciphers != nullptr) SSL_CTX_set_cipher_list(context.get(), ciphers);
    const UniqueFd fd = connected_to(server_->port());
    const std::unique_ptr<SSL, Freed> connection(SSL_new(context.get()));
    SSL_set_fd(connection.get(), fd.get());
    if (server_name != nullptr) SSL_set_tlsext_host_name(connection.get(), server_name);
    if (SSL_connect(connection.get()) != 1) return {};
    Got got;
    const std::unique_ptr<X509, Freed> peer(SSL_get1_peer_certificate(connection.get()));
    std::array<char, 64> name{};
    X509_NAME_get_text_by_NID(X509_get_subject_name(peer.get()), NID_commonName, name.data(),
                              name.size());
    got.name = name.data();
    EXPECT_GT(SSL_write(connection.get(), request.data(), static_cast<int>(request.size())), 0);
    std::array<char, 1000> part{};
    for (int n = 0; (n = SSL_read(connection.get(), part.data(), part.size())) > 0;) {
      got.text.append(part.data(), static_cast<std::size_t>(n));
    }
    EXPECT_EQ(SSL_get_shutdown(connection.get()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN)
        << "the answer is not cut";
    return got;
  }

  std::vector<std::string> problems() {
    const std::lock_guard lock(mutex_);
    return problems_;
  }

  test::ManualClock clock_;
  std::mutex mutex_;
  std::vector<std::string> problems_;  // as reported
  std::unique_ptr<exports::MetricsServer> server_;
};

TEST_F(TlsPagesTest, ACertificateThatSignsItselfServes) {
  serve({});
  const Got got = get();
  EXPECT_EQ(got.name, "forestall-rebalance");
  EXPECT_THAT(got.text, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(got.text, EndsWith("\r\n\r\nxxx"));
  EXPECT_THAT(get("GET /other HTTP/1.1\r\n\r\n").text, StartsWith("HTTP/1.1 404"));
}

// More than the socket's buffers and than a record of TLS take.
TEST_F(TlsPagesTest, ALongAnswerIsWhole) {
  constexpr std::size_t kLong = 5'000'000;
  serve({}, kLong);
  const std::string text = get().text;
  EXPECT_EQ(text.size() - text.find("\r\n\r\n") - 4, kLong);
}

// One record has more than the server reads at once.
TEST_F(TlsPagesTest, ALongRequestIsRead) {
  serve({});
  const std::string field = "X: " + std::string(7000, 'y') + "\r\n";
  EXPECT_THAT(get("GET /metrics HTTP/1.1\r\n" + field + "\r\n").text, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get("GET /metrics HTTP/1.1\r\n" + field + field + "\r\n").text,
              StartsWith("HTTP/1.1 431"));
}

TEST_F(TlsPagesTest, PlainHttpGetsNoPage) {
  serve({}, 3);
  const UniqueFd fd = connected_to(server_->port());
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_EQ(send(fd.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  std::string text;
  std::array<char, 1000> part{};
  for (ssize_t n = 0; (n = recv(fd.get(), part.data(), part.size(), 0)) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  EXPECT_EQ(text.find("HTTP/1.1 200"), std::string::npos);
  EXPECT_THAT(get().text, HasSubstr("200 OK")) << "the next client is served";
}

TEST_F(TlsPagesTest, ChangedFilesCountAfterAMinute) {
  const test::TempTree tree;
  const std::string directory = tree.path().string();
  write_pair(directory, "first");
  serve({.certificate = directory + "/cert", .key = directory + "/key"});
  EXPECT_EQ(get().name, "first");
  write_pair(directory, "second");
  EXPECT_EQ(get().name, "first");
  clock_.advance(TlsPages::kCheckInterval);
  EXPECT_EQ(get().name, "second");
  // A pair that is being replaced does not belong together.
  std::filesystem::rename(directory + "/cert", directory + "/kept");
  write_pair(directory, "third");
  std::filesystem::rename(directory + "/kept", directory + "/cert");
  clock_.advance(TlsPages::kCheckInterval);
  EXPECT_EQ(get().name, "second");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("--tls-private-key-file")));
  clock_.advance(TlsPages::kCheckInterval);
  EXPECT_EQ(get().name, "second");
  EXPECT_EQ(problems().size(), 1U) << "the same problem is reported once";
  write_pair(directory, "fourth");
  clock_.advance(TlsPages::kCheckInterval);
  EXPECT_EQ(get().name, "fourth");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("--tls-private-key-file"), ""));
}

TEST_F(TlsPagesTest, TheRebalancerReportsChangedFilesThatCannotBeUsed) {
  const test::TempTree tree;
  const std::string directory = tree.path().string();
  write_pair(directory, "first");
  RebalancerOptions options;
  options.listen = "127.0.0.1:0";
  options.tls = {.certificate = directory + "/cert", .key = directory + "/key"};
  RebalanceMetrics metrics;
  ::testing::internal::CaptureStderr();
  {
    exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
    server_ = serve_pages(options, metrics, log).value();
    tree.write("cert", "not a certificate");
    const Got got = get();
    EXPECT_EQ(got.name, "first");
    EXPECT_THAT(got.text, HasSubstr("forestall_rebalance_certificate_stale 1\n"));
    server_.reset();
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ContainsRegex("warning +event=certificate problem=.*--tls-cert-file"));
}

constexpr const char* kAnyRequest = "GET /metrics HTTP/1.1\r\n\r\n";

TEST_F(TlsPagesTest, TheCertificateThatSignsItselfIsForBothKindsOfKeys) {
  serve({});
  for (const char* each : {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"}) {
    EXPECT_THAT(get(kAnyRequest, TLS1_2_VERSION, each).text, HasSubstr("200 OK")) << each;
  }
}

TEST_F(TlsPagesTest, CipherSuitesHaveTheNamesOfGo) {
  TlsOptions options;
  options.cipher_suites =
      "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305,TLS_RSA_WITH_RC4_128_SHA";
  serve(options);
  EXPECT_THAT(get(kAnyRequest, TLS1_2_VERSION, "ECDHE-RSA-CHACHA20-POLY1305").text,
              HasSubstr("200 OK"));
  EXPECT_EQ(get(kAnyRequest, TLS1_2_VERSION, "ECDHE-RSA-AES128-GCM-SHA256").text, "");
  // Without one of TLS 1.2 only TLS 1.3 remains.
  options.cipher_suites = "TLS_AES_128_GCM_SHA256";
  serve(options);
  EXPECT_EQ(get(kAnyRequest, TLS1_2_VERSION).text, "");
  EXPECT_THAT(get().text, HasSubstr("200 OK"));
}

TEST_F(TlsPagesTest, OldVersionsAreAcceptedAsTls12) {
  for (const char* each : {"VersionTLS10", "VersionTLS11"}) {
    serve({.certificate = "", .key = "", .min_version = each});
    EXPECT_THAT(get(kAnyRequest, TLS1_2_VERSION).text, HasSubstr("200 OK"));
    EXPECT_EQ(get(kAnyRequest, TLS1_1_VERSION, "DEFAULT:@SECLEVEL=0").text, "");
  }
}

TEST_F(TlsPagesTest, TheNameOfTheServerChoosesTheCertificate) {
  const test::TempTree tree({{"a/", ""}, {"b/", ""}, {"c/", ""}});
  const auto pair = [&tree](const std::string& folder, const std::string& name) {
    write_pair(tree / folder, name);
    return tree / folder + "/cert," + tree / folder + "/key";
  };
  TlsOptions options;
  options.sni = {pair("a", "first"), pair("b", "second") + ":*.Example.org,exact.example.org",
                 pair("c", "third.example.org")};
  serve(options);
  const auto name_for = [this](const char* server) {
    return get(kAnyRequest, TLS1_3_VERSION, nullptr, server).name;
  };
  EXPECT_EQ(name_for(nullptr), "first") << "without another one the first serves all";
  EXPECT_EQ(name_for("other.example.com"), "first");
  EXPECT_EQ(name_for("any.example.org"), "second");
  EXPECT_EQ(name_for("EXACT.example.org"), "second");
  EXPECT_EQ(name_for("third.example.org"), "third.example.org") << "the certificate names it";
  EXPECT_EQ(name_for("a.b.example.org"), "first") << "a wildcard is one label";
  pair("b", "changed");
  clock_.advance(TlsPages::kCheckInterval);
  EXPECT_EQ(name_for("any.example.org"), "changed");
}

TEST(NamedCertificateTest, IsTwoFilesAndPerhapsNames) {
  const auto read = parse_named_certificate("a.crt,a.key:*.x.org,Y.org.");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->certificate, "a.crt");
  EXPECT_EQ(read->key, "a.key");
  EXPECT_THAT(read->names, ElementsAre("*.x.org", "y.org"));
  for (const char* each : {"", "a.crt", "a.crt,", ",a.key", "a,b,c", "a,b:"}) {
    EXPECT_FALSE(parse_named_certificate(each)) << each;
  }
}

TEST_F(TlsPagesTest, AnOldVersionIsRefused) {
  serve({.certificate = "", .key = "", .min_version = "VersionTLS13"});
  EXPECT_EQ(get("GET /metrics HTTP/1.1\r\n\r\n", TLS1_2_VERSION).text, "");
  EXPECT_THAT(get().text, HasSubstr("200 OK"));
  serve({.certificate = "",
         .key = "",
         .min_version = "",
         .cipher_suites = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"});
  EXPECT_THAT(get("GET /metrics HTTP/1.1\r\n\r\n", TLS1_2_VERSION).text, HasSubstr("200 OK"));
}

TEST_F(TlsPagesTest, RefusesWhatItCannotUse) {
  const test::TempTree tree;
  const std::string directory = tree.path().string();
  write_pair(directory, "name");
  const std::string cert = directory + "/cert";
  const std::string key = directory + "/key";
  const auto problem = [](TlsOptions options) {
    const auto pages = TlsPages::create(std::move(options));
    return pages ? "" : pages.error().text();
  };
  EXPECT_EQ(problem({.certificate = cert, .key = key}), "");
  EXPECT_THAT(problem({.certificate = cert, .key = ""}), HasSubstr("need each other"));
  EXPECT_THAT(problem({.certificate = directory + "/none", .key = key}),
              HasSubstr("--tls-cert-file"));
  EXPECT_THAT(problem({.certificate = cert, .key = cert}), HasSubstr("--tls-private-key-file"));
  EXPECT_THAT(problem({.certificate = "", .key = "", .min_version = "VersionSSL30"}),
              HasSubstr("VersionSSL30"));
  TlsOptions named;
  named.sni = {cert + "," + cert};
  EXPECT_THAT(problem(named), HasSubstr("--tls-sni-cert-key"));
  EXPECT_THAT(
      problem({.certificate = "", .key = "", .min_version = "", .cipher_suites = "TLS_FOO"}),
      HasSubstr("no cipher suite 'TLS_FOO'"));
}

}  // namespace
}  // namespace forestall::cluster
