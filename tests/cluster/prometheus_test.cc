// SPDX-License-Identifier: Apache-2.0
// Policies with shares from Prometheus, against a fake one beside the fake API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cluster/prometheus_answer.h"
#include "cluster/prometheus_queries.h"
#include "cluster/rebalance_policy.h"
#include "rebalancer_fixture.h"
#include "support/temp_tree.h"
#include "tls_relay.h"

namespace forestall::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string vector_of(const std::string& samples) {
  return R"({"status":"success","data":{"resultType":"vector","result":[)" + samples + "]}}";
}
std::string sample(const std::string& instance, const std::string& value) {
  return R"({"metric":{"instance":")" + instance + R"("},"value":[1700000000.5,")" + value + "\"]}";
}

TEST(PrometheusAnswer, HasTheErrorsOfTheDescheduler) {
  const auto problem = [](int code, const std::string& body) {
    const auto read = parse_prometheus_answer(code, body);
    return read ? "" : read.error().text();
  };
  const std::string captured = "unable to capture prometheus metrics: ";
  EXPECT_EQ(problem(503, "busy"), captured + "server_error: server error: 503");
  EXPECT_EQ(problem(401, "{}"), captured + "client_error: client error: 401");
  EXPECT_EQ(problem(302, ""), captured + "bad_response: bad response code 302");
  EXPECT_EQ(problem(400, R"({"status":"error","errorType":"bad_data","error":"parse error"})"),
            captured + "bad_data: parse error");
  EXPECT_EQ(problem(422, R"({"status":"success"})"),
            captured + "bad_response: inconsistent body for response code");
  EXPECT_THAT(problem(200, "<html>"), StartsWith(captured + "bad_response: "));
  EXPECT_THAT(problem(200, R"({"status":"success"})"), StartsWith(captured + "bad_response: "));
  EXPECT_EQ(problem(200, R"({"status":"success","data":{"resultType":"matrix","result":[]}})"),
            R"(expected query results to be of type "vector", got "matrix" instead)");
  EXPECT_THAT(problem(200, vector_of(sample("n1", "many"))), HasSubstr("expected a number"));
  EXPECT_THAT(problem(200, vector_of(R"({"metric":{},"value":[1]})")),
              HasSubstr("expected a time and a value"));
}

TEST(PrometheusAnswer, HasSamplesInTheirOrder) {
  const auto read =
      parse_prometheus_answer(200, vector_of(sample("n1", "0.57") + "," + sample("n2", "+Inf") +
                                             R"(,{"metric":{"a":"b"},)"
                                             R"("value":[1,"1e-2"]})"));
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(read->size(), 3U);
  EXPECT_EQ((*read)[0].instance, "n1");
  EXPECT_DOUBLE_EQ((*read)[0].value, 0.57);
  EXPECT_GT((*read)[1].value, 1e300);
  EXPECT_EQ((*read)[2].instance, std::nullopt);
  EXPECT_DOUBLE_EQ((*read)[2].value, 0.01);
}

TEST(PrometheusQueriesTest, SendNoTokenWithoutEncryptionIfStrict) {
  const test::TempTree tree({{"token", "of-the-account"}});
  PrometheusSettings settings;
  settings.url = "http://prometheus.monitoring:9090";
  settings.account_directory = tree.path().string();
  const auto first_of = [&] {
    PrometheusQueries queries(settings, {"up"}, [] { return std::int64_t{5'000'000'000}; });
    queries.begin(MonotonicTime{});
    auto request = queries.next(MonotonicTime{});
    rebalance::Snapshot snapshot;
    if (!request) queries.add_to(snapshot);
    return std::pair(std::move(request), std::move(snapshot));
  };
  const auto exact = first_of().first;
  ASSERT_TRUE(exact);
  EXPECT_EQ(exact->http.server->token, "of-the-account");
  EXPECT_EQ(exact->http.body, "query=up&time=5.000");
  settings.is_strict = true;
  const auto strict = first_of().first;
  ASSERT_TRUE(strict);
  EXPECT_EQ(strict->http.server->token, "");
  settings.secret_namespace = "monitoring";
  settings.secret_name = "token";
  const auto [none, snapshot] = first_of();
  EXPECT_FALSE(none);
  ASSERT_EQ(snapshot.prometheus_answers.size(), 1U);
  EXPECT_THAT(snapshot.prometheus_answers[0].failure, HasSubstr("without encryption; use https"));
  settings.is_strict = false;
  const auto secret = first_of().first;
  ASSERT_TRUE(secret);
  EXPECT_EQ(secret->http.target, "/api/v1/namespaces/monitoring/secrets/token");
}

TEST(PrometheusQueriesTest, FailWithoutAPlainUrl) {
  PrometheusSettings settings;
  for (const char* url : {"prometheus:9090", "ftp://prometheus", "https://me:word@prometheus"}) {
    settings.url = url;
    PrometheusQueries queries(settings, {"up"}, [] { return std::int64_t{0}; });
    queries.begin(MonotonicTime{});
    EXPECT_TRUE(queries.done());
    rebalance::Snapshot snapshot;
    queries.add_to(snapshot);
    EXPECT_THAT(snapshot.prometheus_answers.at(0).failure, HasSubstr("is not a plain URL")) << url;
  }
}

TEST(PrometheusQueriesTest, AllQueriesAreSentAgainToAServerWithoutPost) {
  const test::TempTree tree({{"token", "of-the-account"}, {"ca.crt", "x"}});
  PrometheusSettings settings;
  settings.url = "https://prometheus.monitoring:9090";
  settings.account_directory = tree.path().string();
  PrometheusQueries queries(settings, {"a", "b"}, [] { return std::int64_t{0}; });
  queries.begin(MonotonicTime{});
  const auto answer_both = [&](const char* method, int code, const std::string& body) {
    const auto first = queries.next(MonotonicTime{});
    const auto second = queries.next(MonotonicTime{});
    ASSERT_TRUE(first && second);
    for (const auto* each : {&*first, &*second}) {
      EXPECT_EQ(each->http.method, method);
      queries.answered(each->key, {code, "", ""}, body, std::nullopt, MonotonicTime{});
    }
  };
  answer_both("POST", 405, "{}");
  answer_both("GET", 200, vector_of(sample("n1", "0.5")));
  ASSERT_TRUE(queries.done());
  rebalance::Snapshot snapshot;
  queries.add_to(snapshot);
  ASSERT_EQ(snapshot.prometheus_answers.size(), 2U);
  for (const auto& each : snapshot.prometheus_answers) {
    EXPECT_EQ(each.failure, "") << each.query;
    EXPECT_EQ(each.samples.size(), 1U) << each.query;
  }
}

constexpr const char* kSecretToken = R"(
    authToken: {secretReference: {namespace: monitoring, name: token}}
)";

// Old pods on a node with a share above the target leave it, one for each plan.
std::string policy_of(const std::string& url, const std::string& token) {
  return R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
metricsProviders:
- source: Prometheus
  prometheus:
    url: )" +
         url + token + R"(
profiles:
- name: shares
  pluginConfig:
  - {name: DefaultEvictor, args: {}}
  - name: LowNodeUtilization
    args:
      thresholds: {MetricResource: 30}
      targetThresholds: {MetricResource: 50}
      metricsUtilization: {source: Prometheus, prometheus: {query: "a{b=\"c\"} & d"}}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
- name: old
  pluginConfig:
  - {name: DefaultEvictor, args: {}}
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60, labelSelector: {matchLabels: {a: b}}}}
  plugins: {deschedule: {enabled: [PodLifeTime]}}
)";
}

class PrometheusTest : public RebalancerTest {
 protected:
  using Answer = test::FakeApiServer::Answer;

  RebalancerOptions options(const std::string& token = kSecretToken) {
    RebalancerOptions options;
    options.policy = policy_of(prometheus_.url(), token);
    options.account_directory = tree_.path().string();
    return options;
  }
  void set_answer(Answer answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  // Pods that one plan evicts.
  std::vector<std::string> evicted(ClusterWithPods& cluster, RebalancerOptions options) {
    const auto rebalancer = make(cluster, std::move(options));
    EXPECT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
    return cluster.evicted();
  }
  std::vector<std::string> tokens() {
    std::vector<std::string> all;
    for (const ApiRequest& each : prometheus_.requests()) {
      const auto found = each.headers.find("authorization");
      all.push_back(found == each.headers.end() ? "" : found->second);
    }
    return all;
  }

  const test::TempTree tree_{{{"token", "of-the-account\n"}}};
  std::mutex mutex_;
  Answer answer_ = [](const ApiRequest&) {
    return json_answer(200, vector_of(sample("n1", "0.9") + "," + sample("n2", "0.1") + "," +
                                      sample("other", "0.5")));
  };
  test::FakeApiServer prometheus_{[this](const ApiRequest& request) {
    const std::lock_guard lock(mutex_);
    return answer_(request);
  }};
};

TEST_F(PrometheusTest, AnswersWithTheTokenOfTheSecretDecide) {
  ClusterWithPods cluster("ab");
  cluster.set_secret(200, R"({"data":{"prometheusAuthToken":"dG9rZW4tMQ=="}})");
  EXPECT_THAT(evicted(cluster, options()), ElementsAre("a"));
  const auto requests = prometheus_.requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_EQ(requests[0].target, "/api/v1/query");
  EXPECT_EQ(requests[0].headers.at("content-type"), "application/x-www-form-urlencoded");
  EXPECT_THAT(requests[0].body, StartsWith("query=a%7Bb%3D%22c%22%7D%20%26%20d&time=1"));
  EXPECT_THAT(tokens(), ElementsAre("Bearer token-1"));
  EXPECT_EQ(cluster.requests("GET", "/secrets").size(), 1U);
}

TEST_F(PrometheusTest, TheTokenIsReadForEachPlan) {
  ClusterWithPods cluster("abcd");
  cluster.set_secret(200, R"({"data":{"prometheusAuthToken":"dG9rZW4tMQ=="}})");
  RebalancerOptions repeated = options();
  repeated.interval = std::chrono::milliseconds(100);
  const auto rebalancer = make(cluster, std::move(repeated));
  const auto plans = [&](std::size_t count) {
    return run_until({rebalancer.get()}, [&] { return prometheus_.requests().size() >= count; });
  };
  ASSERT_TRUE(plans(1));
  cluster.set_secret(200, R"({"data":{"prometheusAuthToken":"dG9rZW4tMg=="}})");
  ASSERT_TRUE(plans(3));
  // A server that does not answer leaves the token in use; a Secret that is gone does not.
  cluster.set_secret(500, "{}");
  ASSERT_TRUE(plans(5));
  EXPECT_EQ(tokens().back(), "Bearer token-2");
  cluster.set_secret(404, "{}");
  const std::size_t before = cluster.requests("GET", "/secrets").size();
  ASSERT_TRUE(run_until({rebalancer.get()},
                        [&] { return cluster.requests("GET", "/secrets").size() >= before + 3; }));
  const std::size_t sent = prometheus_.requests().size();
  ASSERT_TRUE(run_until({rebalancer.get()},
                        [&] { return cluster.requests("GET", "/secrets").size() >= before + 5; }));
  EXPECT_EQ(prometheus_.requests().size(), sent);
}

TEST_F(PrometheusTest, WithoutASecretItGetsTheTokenOfTheServiceAccount) {
  ClusterWithPods cluster("ab");
  EXPECT_THAT(evicted(cluster, options("")), ElementsAre("a"));
  EXPECT_THAT(tokens(), ElementsAre("Bearer of-the-account"));
  EXPECT_THAT(cluster.requests("GET", "/secrets"), IsEmpty());
}

TEST(PrometheusSettingsTest, AUrlWithAPasswordIsRefusedAtTheStart) {
  RebalancerOptions options;
  options.policy_file = "policy.yaml";
  options.policy = policy_of("https://me:word@prometheus", kSecretToken);
  const auto checked = checked_policy(options);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().text(), HasSubstr("policy.yaml: metricsProviders: "));
  EXPECT_THAT(checked.error().text(), Not(HasSubstr("word@")));
  options.policy = policy_of("https://prometheus", kSecretToken);
  EXPECT_TRUE(checked_policy(options));
}

TEST_F(PrometheusTest, OutsideAPodNothingIsSent) {
  ClusterWithPods cluster("ab");
  RebalancerOptions outside = options("");
  outside.account_directory = "/nonexistent";
  EXPECT_THAT(evicted(cluster, std::move(outside)), IsEmpty());
  EXPECT_THAT(prometheus_.requests(), IsEmpty());
}

TEST_F(PrometheusTest, AServerWithoutPostGetsGet) {
  set_answer([](const ApiRequest& request) {
    if (request.method == "POST") return json_answer(405, "{}");
    return json_answer(200, vector_of(sample("n1", "0.9") + "," + sample("n2", "0.1")));
  });
  ClusterWithPods cluster("ab");
  EXPECT_THAT(evicted(cluster, options("")), ElementsAre("a"));
  EXPECT_THAT(prometheus_.requests().at(1).target, StartsWith("/api/v1/query?query=a%7B"));
}

TEST_F(PrometheusTest, WhatCannotBeUsedEvictsNothing) {
  const std::vector<std::pair<int, std::string>> answers = {
      {503, "{}"},
      {200, R"({"status":"success","data":{"resultType":"scalar","result":[1,"0.5"]}})"},
      {200, vector_of(sample("n1", "0.9"))},                               // no n2
      {200, vector_of(sample("n1", "0.9") + "," + sample("n2", "-0.1"))},  // not a share
      {200, vector_of(sample("n1", "1.01") + "," + sample("n2", "0.1"))},  // not a share
      {200, vector_of(sample("n1", "NaN") + "," + sample("n2", "0.1"))},   // unknown
      {200, vector_of(R"({"metric":{"node":"n1"},"value":[1,"0.9"]})")},   // no instance
      {200, vector_of("")},
  };
  for (const auto& [code, body] : answers) {
    set_answer([code, body](const ApiRequest&) { return json_answer(code, body); });
    ClusterWithPods cluster("ab");
    EXPECT_THAT(evicted(cluster, options("")), IsEmpty()) << body;
  }
}

TEST_F(PrometheusTest, AQueryThatFailsEndsNoOtherPlugin) {
  set_answer([](const ApiRequest&) { return json_answer(503, "{}"); });
  ClusterWithPods cluster("ab");
  RebalancerOptions both = options("");
  const std::string selector = ", labelSelector: {matchLabels: {a: b}}";
  both.policy.erase(both.policy.find(selector), selector.size());
  EXPECT_THAT(evicted(cluster, std::move(both)), ElementsAre("a", "b"));
}

// The token is not sent to a server that another authority signed.
TEST_F(PrometheusTest, AnHttpsServerMustBeOfTheAuthority) {
  const test::TlsRelay relay(prometheus_.url());
  const test::TlsRelay other(prometheus_.url());
  const test::TempTree account({{"token", "t"}, {"ca.crt", relay.authority()}});
  const test::TempTree files({{"right.pem", relay.authority()}, {"other.pem", other.authority()}});
  const auto evicted_with = [&](const std::string& directory, const std::string& ca_file,
                                const std::string& kubeconfig_ca = "") {
    ClusterWithPods cluster("ab");
    RebalancerOptions secure;
    secure.policy = policy_of(relay.url(), "");
    secure.account_directory = directory;
    secure.prometheus_ca = ca_file;
    secure.access.ca.text = kubeconfig_ca;
    return evicted(cluster, std::move(secure));
  };
  const std::string with_ca = account.path().string();
  const std::string without = tree_.path().string();
  EXPECT_THAT(evicted_with(with_ca, files / "other.pem"), IsEmpty());
  EXPECT_THAT(evicted_with(without, files / "other.pem"), IsEmpty());
  EXPECT_THAT(evicted_with(without, "", other.authority()), IsEmpty());
  EXPECT_THAT(evicted_with(without, ""), IsEmpty()) << "not those of the system";
  EXPECT_THAT(prometheus_.requests(), IsEmpty());
  EXPECT_THAT(evicted_with(with_ca, ""), ElementsAre("a"));
  EXPECT_THAT(evicted_with(without, files / "right.pem"), ElementsAre("a"));
  EXPECT_THAT(evicted_with(without, "", relay.authority()), ElementsAre("a"));
  EXPECT_THAT(tokens(), ElementsAre("Bearer t", "Bearer of-the-account", "Bearer of-the-account"));
}

TEST(PrometheusQueriesTest, AnHttpsServerWithoutAnAuthorityIsRefused) {
  const test::TempTree tree({{"token", "t"}});
  PrometheusQueries queries({.url = "https://p", .account_directory = tree.path().string()}, {"q"},
                            [] { return std::int64_t{0}; });
  queries.begin(MonotonicTime{});
  EXPECT_FALSE(queries.next(MonotonicTime{}));
  ASSERT_TRUE(queries.done());
  rebalance::Snapshot snapshot;
  queries.add_to(snapshot);
  EXPECT_THAT(snapshot.prometheus_answers.at(0).failure,
              HasSubstr("use --prometheus-ca-file FILE"));
}

TEST(PrometheusSettingsTest, AreThoseOfThePolicy) {
  const std::string policy = policy_of("https://p/x", kSecretToken);
  const auto settings = prometheus_of("policy.yaml", policy);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->url, "https://p/x");
  EXPECT_EQ(settings->secret_namespace, "monitoring");
  EXPECT_EQ(settings->secret_name, "token");
  const auto read = read_policy("policy.yaml", policy, "", nullptr);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_THAT(prometheus_queries(*read), ElementsAre("a{b=\"c\"} & d"));
  EXPECT_FALSE(prometheus_of("policy.yaml", kOldPods));
}

}  // namespace
}  // namespace forestall::cluster
