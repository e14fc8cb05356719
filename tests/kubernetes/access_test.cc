// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "support/temp_tree.h"

namespace forestall::kubernetes {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A kubeconfig of one context whose cluster and user have these lines.
std::string kubeconfig(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n- name: here\n"
         "  context: {cluster: c, user: u, namespace: shop}\nclusters:\n- name: other\n"
         "  cluster: {server: 'https://elsewhere'}\n- name: c\n  cluster:\n    " +
         cluster + "\nusers:\n- name: u\n  user:\n    " + user + "\n";
}

std::string problem_of(const std::string& cluster, const std::string& user) {
  const auto access = parse_kubeconfig(kubeconfig(cluster, user), "/etc/k", "");
  return access ? "" : access.error().text();
}

TEST(InClusterAccess, IsTheServiceAccounts) {
  const auto access = in_cluster_access("10.96.0.1", "443");
  ASSERT_TRUE(access) << access.error().text();
  EXPECT_EQ(access->server, "https://10.96.0.1:443");
  EXPECT_EQ(access->ca.file, "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt");
  EXPECT_EQ(access->token_file, "/var/run/secrets/kubernetes.io/serviceaccount/token");
  EXPECT_EQ(in_cluster_access("fd00::1", "443")->server, "https://[fd00::1]:443");
}

TEST(InClusterAccess, NeedsTheServicesAddress) {
  for (const auto& [host, port] : {std::pair{"", "443"},
                                   {"10.0.0.1", ""},
                                   {"10.0.0.1", "0"},
                                   {"10.0.0.1", "70000"},
                                   {"10.0.0.1", "https"},
                                   {"a@b", "1"},
                                   {"a b", "1"}}) {
    EXPECT_FALSE(in_cluster_access(host, port)) << host << ' ' << port;
  }
}

TEST(PlainUrl, HasASchemeAndAHostAndNoCredentials) {
  EXPECT_TRUE(is_plain_url("http://prometheus:9090/path"));
  for (const char* each : {"prometheus:9090", "http://", "://host", "http://a@b", "http://a?b",
                           "http://a#b", "http://a b", "http://a\nb", ""}) {
    EXPECT_FALSE(is_plain_url(each)) << each;
  }
}

TEST(SendsInClear, IsHttpToAnotherHost) {
  EXPECT_TRUE(sends_in_clear("http://prometheus"));
  EXPECT_TRUE(sends_in_clear("http://127.0.0.1.example"));
  EXPECT_FALSE(sends_in_clear("http://127.0.0.1:9090"));
  EXPECT_FALSE(sends_in_clear("http://localhost/x"));
  EXPECT_FALSE(sends_in_clear("https://prometheus"));
}

TEST(Kubeconfig, ReadsTheCurrentContext) {
  const auto access = parse_kubeconfig(
      kubeconfig("server: https://10.0.0.1:6443/k8s/\n    certificate-authority: ca.pem\n"
                 "    tls-server-name: api",
                 "tokenFile: /run/token\n    client-certificate: c.pem\n    client-key: k.pem"),
      "/etc/k", "");
  ASSERT_TRUE(access) << access.error().text();
  EXPECT_EQ(access->server, "https://10.0.0.1:6443/k8s");
  EXPECT_EQ(access->server_name, "api");
  EXPECT_EQ(access->ca.file, "/etc/k/ca.pem");
  EXPECT_EQ(access->token_file, "/run/token");
  EXPECT_EQ(access->client_certificate.file, "/etc/k/c.pem");
  EXPECT_EQ(access->client_key.file, "/etc/k/k.pem");
}

TEST(Kubeconfig, PrefersDataToFiles) {
  // "-----BEGIN X-----\n"
  const auto access =
      parse_kubeconfig(kubeconfig("server: https://a\n    certificate-authority: ca.pem\n"
                                  "    certificate-authority-data: LS0tLS1CRUdJTiBYLS0tLS0K",
                                  "token: abc"),
                       "", "here");
  ASSERT_TRUE(access) << access.error().text();
  EXPECT_EQ(access->ca, (PemSource{"", "-----BEGIN X-----\n"}));
  EXPECT_EQ(current_token(*access).value(), "abc");
}

TEST(Kubeconfig, RefusesWhatItWouldHaveToIgnore) {
  const std::string server = "server: https://a";
  EXPECT_EQ(problem_of(server, "token: abc"), "");
  EXPECT_EQ(problem_of(server + "\n    insecure-skip-tls-verify: false", "token: abc"), "");
  EXPECT_EQ(problem_of(server + "\n    insecure-skip-tls-verify: true", "token: abc"),
            "cluster c: 'insecure-skip-tls-verify' is not supported");
  EXPECT_EQ(problem_of(server + "\n    proxy-url: http://p", "token: abc"),
            "cluster c: 'proxy-url' is not supported");
  EXPECT_EQ(problem_of(server, "exec: {command: aws}"), "user u: 'exec' is not supported");
  EXPECT_EQ(problem_of(server, "password: x"), "user u: 'password' is not supported");
  EXPECT_EQ(problem_of(server, "as: admin"), "user u: 'as' is not supported");
  EXPECT_THAT(problem_of(server, "client-certificate: c.pem"), HasSubstr("need each other"));
  EXPECT_THAT(problem_of(server, "token: 'a b'"), HasSubstr("control characters"));
  EXPECT_THAT(problem_of(server, "token: \"a\\r\\nHost: b\""), HasSubstr("control characters"));
  EXPECT_THAT(problem_of(server + "\n    certificate-authority-data: LS0=", "token: a"),
              HasSubstr("not PEM in base64"));
  EXPECT_THAT(problem_of(server + "\n    certificate-authority-data: '*'", "token: a"),
              HasSubstr("not PEM in base64"));
}

TEST(Kubeconfig, SendsCredentialsInTheClearToThisHostOnly) {
  EXPECT_EQ(problem_of("server: http://127.0.0.1:8001", "token: a"), "");
  EXPECT_EQ(problem_of("server: http://localhost", "token: a"), "");
  for (const char* server :
       {"http://10.0.0.1", "http://127.0.0.1.example.org", "http://localhost.example.org",
        "ftp://a", "https://", "''", "https://user@host", "'https://a b'", "https://a?x", "a"}) {
    EXPECT_THAT(problem_of(std::string("server: ") + server, "token: a"), StartsWith("server '"))
        << server;
  }
}

TEST(Kubeconfig, NamesWhatIsMissing) {
  const std::string good = kubeconfig("server: https://a", "token: abc");
  EXPECT_EQ(parse_kubeconfig(good, "", "there").error().text(),
            "contexts has no entry named 'there'");
  EXPECT_EQ(parse_kubeconfig("apiVersion: v1", "", "").error().text(),
            "'current-context' is missing, and no context was named");
  EXPECT_FALSE(parse_kubeconfig("a: [", "", ""));
  EXPECT_FALSE(parse_kubeconfig("", "", ""));
  EXPECT_FALSE(parse_kubeconfig("- a", "", ""));
  EXPECT_THAT(read_kubeconfig("/nowhere/config", "").error().text(),
              StartsWith("open /nowhere/config"));
}

// The kubelet replaces the symbolic link ..data, of which `token` is a link into.
TEST(CurrentToken, FollowsTheKubeletsReplacement) {
  const test::TempTree tree({{"1/token", "old\n"}, {"2/token", "new"}});
  std::filesystem::create_symlink("1", tree / "..data");
  std::filesystem::create_symlink("..data/token", tree / "token");
  Access access;
  access.token_file = tree / "token";
  EXPECT_EQ(current_token(access).value(), "old");
  std::filesystem::create_symlink("2", tree / "..tmp");
  std::filesystem::rename(tree / "..tmp", tree / "..data");
  EXPECT_EQ(current_token(access).value(), "new");
}

TEST(CurrentToken, RefusesWhatWouldEndTheHeader) {
  const test::TempTree tree({{"token", "a\r\nHost: b"}, {"empty", "\n"}});
  Access access;
  access.token_file = tree / "token";
  EXPECT_FALSE(current_token(access));
  access.token_file = tree / "empty";
  EXPECT_FALSE(current_token(access));
  tree.write("token", std::string(100'000, 'a'));
  access.token_file = tree / "token";
  EXPECT_FALSE(current_token(access));
}

}  // namespace
}  // namespace forestall::kubernetes
