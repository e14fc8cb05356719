// SPDX-License-Identifier: Apache-2.0
#include "cluster/rebalance_policy.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "descheduler/descheduler_policy.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

Result<text::JsonDocument> effective_policy(const std::string& file, const std::string& text) {
  text::Findings findings;
  const auto read = descheduler::parse_descheduler_policy(file, text, nullptr, findings);
  if (!read) return error(text::format(findings.errors));
  return text::JsonDocument::parse(read->effective);
}

}  // namespace

Result<rebalance::Policy> read_policy(const std::string& file, const std::string& text,
                                      const std::string& compat,
                                      const std::vector<rebalance::PriorityClass>* classes) {
  text::Findings findings;
  auto read = descheduler::parse_descheduler_policy(file, text, classes, findings);
  if (!read || !findings.errors.empty()) return error(text::format(findings.errors));
  rebalance::Policy policy = std::move(read->policy);
  if (compat == "fixed") policy.corrections = rebalance::Corrections::all();
  if (compat == "upstream") policy.corrections = rebalance::Corrections::none();
  return policy;
}

std::optional<std::int64_t> grace_of(const std::string& file, const std::string& text) {
  const auto document = effective_policy(file, text);
  if (!document) return std::nullopt;
  const auto grace = document->root().find("gracePeriodSeconds");
  if (!grace || !*grace) return std::nullopt;
  const auto seconds = (*grace)->integer();
  return seconds ? std::optional(*seconds) : std::nullopt;
}

bool reports_failures(const std::string& file, const std::string& text) {
  const auto document = effective_policy(file, text);
  if (!document) return false;
  const auto wanted = document->root().find("evictionFailureEventNotification");
  if (!wanted || !*wanted) return false;
  const auto value = (*wanted)->boolean();
  return value && *value;
}

std::optional<PrometheusSettings> prometheus_of(const std::string& file, const std::string& text) {
  const auto document = effective_policy(file, text);
  if (!document) return std::nullopt;
  std::optional<PrometheusSettings> settings;
  const auto read = [&settings](const text::JsonValue& provider) -> Result<void> {
    if (settings || TRY(provider.text("source")) != "Prometheus") return {};
    const text::JsonValue block = TRY(provider.at("prometheus"));
    settings.emplace();
    settings->url = TRY(block.text("url"));
    const auto token = TRY(block.find("authToken"));
    if (!token) return {};
    const text::JsonValue secret = TRY(token->at("secretReference"));
    settings->secret_namespace = TRY(secret.text("namespace"));
    settings->secret_name = TRY(secret.text("name"));
    return {};
  };
  if (!document->root().each_in("metricsProviders", read)) return std::nullopt;
  return settings;
}

std::vector<std::string> prometheus_queries(const rebalance::Policy& policy) {
  std::vector<std::string> queries;
  for (const rebalance::Profile& profile : policy.profiles) {
    for (const rebalance::ProfilePlugin& plugin : profile.balance) {
      const auto* args = std::get_if<rebalance::LowNodeUtilizationArgs>(&plugin.args);
      if (args == nullptr || args->metrics != rebalance::MetricsSource::prometheus) continue;
      if (std::ranges::find(queries, args->query) == queries.end()) queries.push_back(args->query);
    }
  }
  return queries;
}

bool collects_node_metrics(const rebalance::Policy& policy) {
  return policy.kubernetes_metrics && policy.corrections.empty();
}

std::size_t reports_compared(const rebalance::Policy& policy) {
  std::size_t most = 0;
  for (const rebalance::Profile& profile : policy.profiles) {
    for (const auto* plugins : {&profile.deschedule, &profile.balance}) {
      for (const rebalance::ProfilePlugin& plugin : *plugins) {
        const auto* const args = std::get_if<rebalance::NodePressureArgs>(&plugin.args);
        if (args != nullptr) most = std::max<std::size_t>(most, args->consecutive_reports);
      }
    }
  }
  return most;
}

}  // namespace forestall::cluster
