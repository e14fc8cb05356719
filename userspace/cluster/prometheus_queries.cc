// SPDX-License-Identifier: Apache-2.0
#include "cluster/prometheus_queries.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "kubernetes/api_status.h"
#include "kubernetes/base64.h"
#include "kubernetes/url.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

constexpr std::string_view kSecretKey = "secret";
constexpr int kNoSecret = 404;
// Of a proxy, or an old Prometheus, that takes no POST.
constexpr int kNoSuchMethod = 405;
constexpr int kNotImplemented = 501;

// Becomes part of a header.
bool fits_header(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

Result<std::string> token_in(std::string_view secret) {
  const auto document = TRY(text::JsonDocument::parse(secret));
  const auto data = TRY(document.root().find("data"));
  const std::string encoded = data ? TRY(data->text(PrometheusQueries::kTokenKey)) : "";
  const auto token = kubernetes::decode_base64(encoded);
  if (encoded.empty() || !token || trim(*token).empty()) {
    return error(fmt::format("prometheus authentication token secret missing \"{}\" data or empty",
                             PrometheusQueries::kTokenKey));
  }
  if (fits_header(trim(*token))) return std::string(trim(*token));
  return error(
      fmt::format("\"{}\" of the prometheus authentication token secret has blanks or "
                  "control characters",
                  PrometheusQueries::kTokenKey));
}

}  // namespace

PrometheusQueries::PrometheusQueries(PrometheusSettings settings, std::vector<std::string> queries,
                                     std::function<std::int64_t()> wall_ns)
    : settings_(std::move(settings)), wall_ns_(std::move(wall_ns)) {
  for (std::string& each : queries) queries_.push_back({.text = std::move(each)});
}

bool PrometheusQueries::is_clear() const {
  return kubernetes::sends_in_clear(settings_.url);
}

// The URL is not in the message: it may have a password.
Result<void> PrometheusQueries::check_url(std::string_view url) {
  const bool is_web = url.starts_with("http://") || url.starts_with("https://");
  if (is_web && kubernetes::is_plain_url(url)) return {};
  return error(
      "the URL of Prometheus is not a plain URL such as https://prometheus.monitoring:9090; remove "
      "user, password, query and fragment");
}

void PrometheusQueries::begin(MonotonicTime now) {
  ++run_;
  begun_ = now;
  sent_ = false;
  for (Query& each : queries_) each = {.text = std::move(each.text)};
  if (const auto checked = check_url(settings_.url); !checked) {
    return fail("unable to capture prometheus metrics: " + checked.error().text());
  }
  if (!settings_.secret_name.empty()) {
    if (!settings_.is_strict || !is_clear()) {
      phase_ = QueryPhase::secret;
      return;
    }
    return fail(
        fmt::format("prometheus client not initialized: {} would receive the token of the "
                    "secret without encryption; use https",
                    settings_.url));
  }
  const auto read = read_account_token();
  if (!read) {
    return fail(fmt::format("prometheus client not initialized: {}; outside a pod, set authToken",
                            read.error().text()));
  }
  begin_queries();
}

void PrometheusQueries::cancel() {
  ++run_;
  phase_ = QueryPhase::done;
}

Result<void> PrometheusQueries::read_account_token() {
  token_.clear();
  if (settings_.is_strict && is_clear()) return {};
  kubernetes::Access account;
  account.token_file = settings_.account_directory + "/token";
  token_ = TRY(kubernetes::current_token(account));
  return {};
}

kubernetes::PemSource PrometheusQueries::authority() const {
  if (!settings_.authority_file.empty()) return {.file = settings_.authority_file, .text = {}};
  const std::string of_account = settings_.account_directory + "/ca.crt";
  if (::access(of_account.c_str(), R_OK) == 0) return {.file = of_account, .text = {}};
  return settings_.api_authority;
}

void PrometheusQueries::begin_queries() {
  auto server = std::make_shared<kubernetes::Access>();
  server->server = settings_.url;
  while (server->server.ends_with('/')) server->server.pop_back();
  server->token = token_;
  server->ca = authority();
  const bool is_https = settings_.url.starts_with("https://");
  if (is_https && server->ca.empty()) {
    return fail(
        fmt::format("prometheus client not initialized: no certificate authority for {}: "
                    "neither the service account nor the kubeconfig has one; use "
                    "--prometheus-ca-file FILE",
                    settings_.url));
  }
  server_ = std::move(server);
  phase_ = queries_.empty() ? QueryPhase::done : QueryPhase::queries;
}

void PrometheusQueries::fail(const std::string& problem) {
  for (Query& each : queries_) {
    each.over = true;
    each.failure = problem;
  }
  phase_ = QueryPhase::done;
}

kubernetes::OutgoingRequest PrometheusQueries::request_of(Query& query) const {
  constexpr std::int64_t kMillis = 1'000'000;
  const std::int64_t now = wall_ns_() / kMillis;
  const std::string form = fmt::format(
      "query={}&time={}.{:03}", kubernetes::percent_encoded(query.text), now / 1000, now % 1000);
  kubernetes::OutgoingRequest request;
  request.target = "/api/v1/query";
  query.posted = !gets_;
  if (gets_) {
    request.target += '?' + form;
  } else {
    request.method = "POST";
    request.content_type = "application/x-www-form-urlencoded";
    request.body = form;
  }
  request.longest = kLongest;
  request.server = server_;
  return request;
}

std::optional<KeyedRequest> PrometheusQueries::next(MonotonicTime) {
  if (phase_ == QueryPhase::secret && !sent_) {
    sent_ = true;
    kubernetes::OutgoingRequest request;
    request.target = fmt::format("/api/v1/namespaces/{}/secrets/{}",
                                 kubernetes::percent_encoded(settings_.secret_namespace),
                                 kubernetes::percent_encoded(settings_.secret_name));
    request.longest = kLongest;
    return KeyedRequest{fmt::format("{}/{}", run_, kSecretKey), std::move(request)};
  }
  if (phase_ != QueryPhase::queries) return std::nullopt;
  for (std::size_t i = 0; i < queries_.size(); ++i) {
    if (queries_[i].sent) continue;
    queries_[i].sent = true;
    return KeyedRequest{fmt::format("{}/{}", run_, i), request_of(queries_[i])};
  }
  return std::nullopt;
}

void PrometheusQueries::answered(std::string_view key, const kubernetes::ResponseHead& head,
                                 std::string_view body, const std::optional<Error>& failure,
                                 MonotonicTime) {
  const auto run = parse_u64(next_field(key, '/'));
  if (!run || *run != run_ || phase_ == QueryPhase::done) return;
  if (key == kSecretKey) return take_secret(head, body, failure);
  const auto index = parse_u64(key);
  if (!index || *index >= queries_.size()) return;
  take_answer(queries_[*index], head, body, failure);
  if (std::ranges::all_of(queries_, &Query::over)) phase_ = QueryPhase::done;
}

// As the descheduler, which watches the Secret: a token that was read once stays in use while the
// API server does not answer.
void PrometheusQueries::take_secret(const kubernetes::ResponseHead& head, std::string_view body,
                                    const std::optional<Error>& failure) {
  std::string problem;
  bool is_gone = false;
  if (!failure && head.code == 200) {
    auto token = token_in(body);
    if (token) {
      token_ = *std::move(token);
      return begin_queries();
    }
    problem = token.error().text();
    is_gone = settings_.is_strict;
  } else {
    problem = fmt::format("unable to get {}/{} secret: {}", settings_.secret_namespace,
                          settings_.secret_name,
                          failure ? kubernetes::bounded_text(failure->text())
                                  : kubernetes::parse_api_status(head.code, body).text());
    is_gone = !failure && (head.code == kNoSecret || (settings_.is_strict && head.code == 403));
  }
  if (is_gone) token_.clear();
  if (!token_.empty()) return begin_queries();
  fail("prometheus client not initialized: " + problem);
}

void PrometheusQueries::take_answer(Query& query, const kubernetes::ResponseHead& head,
                                    std::string_view body, const std::optional<Error>& failure) {
  // Other queries may be under way: each is sent again.
  const bool no_post =
      !failure && (head.code == kNoSuchMethod || head.code == kNotImplemented) && query.posted;
  if (no_post) {
    gets_ = true;
    query.sent = false;
    return;
  }
  query.over = true;
  if (failure) {
    query.failure =
        "unable to capture prometheus metrics: " + kubernetes::bounded_text(failure->text());
    return;
  }
  auto values = parse_prometheus_answer(head.code, body);
  if (values) {
    query.values = *std::move(values);
  } else {
    query.failure = values.error().text();
  }
}

void PrometheusQueries::add_to(rebalance::Snapshot& snapshot) const {
  for (const Query& each : queries_) {
    rebalance::PrometheusAnswer answer{each.text, {}, each.failure};
    for (const PrometheusValue& value : each.values) {
      rebalance::PrometheusSample sample;
      if (value.instance) sample.instance = snapshot.texts->keep(*value.instance);
      sample.value = value.value;
      answer.samples.push_back(sample);
    }
    snapshot.prometheus_answers.push_back(std::move(answer));
  }
}

std::optional<MonotonicTime> PrometheusQueries::due() const {
  const bool waits =
      phase_ == QueryPhase::secret
          ? !sent_
          : phase_ == QueryPhase::queries && !std::ranges::all_of(queries_, &Query::sent);
  return waits ? std::optional(begun_) : std::nullopt;
}

}  // namespace forestall::cluster
