// SPDX-License-Identifier: Apache-2.0
// Which servers the client trusts. The server is that of openssl(1).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>

#include "kubernetes/http_client.h"
#include "support/child.h"
#include "support/program.h"
#include "support/temp_tree.h"

namespace forestall::kubernetes {
namespace {

using ::testing::HasSubstr;

// A certificate that signs itself, for 127.0.0.1 and api.test.
bool make_certificate(const test::TempTree& tree, const std::string& name) {
  test::Child child([&] {
    const int out = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    return test::run_program(
        {"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", tree / (name + ".key"), "-out", tree / (name + ".pem"), "-days", "2",
         "-subj", "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1,DNS:api.test"},
        out, out);
  });
  return child.wait_exit() && child.reap() == 0;
}

// A TLS server with the certificate `name`, on a free port.
class TlsServer {
 public:
  TlsServer(const test::TempTree& tree, const std::string& name)
      : child_([&, pipe = make_pipe()] {
          return test::run_program(
              {"/usr/bin/openssl", "s_server", "-accept", "127.0.0.1:0", "-cert",
               tree / (name + ".pem"), "-key", tree / (name + ".key"), "-www"},
              pipe, pipe);
        }) {
    write_.reset();
    std::string text;
    char c = 0;
    while (::read(read_.get(), &c, 1) == 1) {
      text += c;
      const std::size_t at = text.find("ACCEPT 127.0.0.1:");
      if (at == std::string::npos || c != '\n') continue;
      port_ = text.substr(at + 17, text.size() - at - 18);
      return;
    }
  }
  [[nodiscard]] std::string port() const { return port_; }

 private:
  int make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
    read_.reset(ends[0]);
    write_.reset(ends[1]);
    return ends[1];
  }

  UniqueFd read_, write_;
  std::string port_;
  test::Child child_;
};

std::optional<Error> failure_of(const Access& access) {
  AnswerCollector answer;
  auto client = HttpClient::create(access);
  if (!client) return client.error();
  OutgoingRequest request;
  request.target = "/";
  request.longest = std::chrono::seconds(20);
  const auto started = (*client)->start(request, answer);
  if (!started) return started.error();
  while (!answer.over()) {
    (*client)->advance();
    EXPECT_TRUE((*client)->wait({}, std::chrono::milliseconds(20)));
  }
  EXPECT_EQ(answer.failure().has_value(), answer.head().code == 0);
  return answer.failure();
}

class TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_certificate(tree_, "right"));
    ASSERT_TRUE(make_certificate(tree_, "other"));
  }
  static Access access(const std::string& host, const TlsServer& server, const std::string& ca) {
    Access access;
    access.server = "https://" + host + ":" + server.port();
    access.ca.file = ca;
    return access;
  }
  const test::TempTree tree_;
};

TEST_F(TlsTest, TrustsTheGivenAuthorityOnly) {
  const TlsServer server(tree_, "right");
  EXPECT_EQ(failure_of(access("127.0.0.1", server, tree_ / "right.pem")), std::nullopt);
  Access text = access("127.0.0.1", server, "");
  text.ca.text = test::read_text(tree_ / "right.pem");
  EXPECT_EQ(failure_of(text), std::nullopt);
  const auto other = failure_of(access("127.0.0.1", server, tree_ / "other.pem"));
  ASSERT_TRUE(other);
  EXPECT_THAT(other->text(), HasSubstr("certificate"));
  EXPECT_TRUE(failure_of(access("127.0.0.1", server, tree_ / "missing.pem")));
  EXPECT_TRUE(failure_of(access("127.0.0.1", server, "")));  // of the system
}

TEST_F(TlsTest, ChecksTheNameInTheCertificate) {
  const TlsServer server(tree_, "right");
  EXPECT_TRUE(failure_of(access("localhost", server, tree_ / "right.pem")));
  Access named = access("localhost", server, tree_ / "right.pem");
  named.server_name = "api.test";
  EXPECT_EQ(failure_of(named), std::nullopt);
  named = access("127.0.0.1", server, tree_ / "right.pem");
  named.server_name = "evil.test";
  EXPECT_TRUE(failure_of(named));
}

// libcurl would keep the certificates of the file for a day.
TEST_F(TlsTest, ReadsTheAuthorityForEachConnection) {
  const TlsServer right(tree_, "right");
  tree_.write("ca.pem", test::read_text(tree_ / "right.pem"));
  Access access = this->access("127.0.0.1", right, tree_ / "ca.pem");
  auto client = HttpClient::create(access);
  ASSERT_TRUE(client);
  const auto works = [&] {
    AnswerCollector answer;
    OutgoingRequest request;
    request.target = "/";
    EXPECT_TRUE((*client)->start(request, answer));
    while (!answer.over()) {
      (*client)->advance();
      EXPECT_TRUE((*client)->wait({}, std::chrono::milliseconds(20)));
    }
    return !answer.failure();
  };
  EXPECT_TRUE(works());  // openssl closes the connection after each answer
  tree_.write("ca.pem", test::read_text(tree_ / "other.pem"));
  EXPECT_FALSE(works());
}

}  // namespace
}  // namespace forestall::kubernetes
