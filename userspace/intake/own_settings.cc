// SPDX-License-Identifier: Apache-2.0
#include "intake/own_settings.h"

#include <arpa/inet.h>

#include <array>
#include <string>

#include "base/parse.h"
#include "intake/amounts.h"
#include "messages/convert.h"

namespace forestall::intake {
namespace {

using namespace std::chrono_literals;

bool is_port(std::string_view text) {
  const auto port = parse_u64(text);
  return port && *port > 0 && *port <= UINT16_MAX && text.front() != '0';
}

bool is_ip(std::string_view text, int family) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return text.find('\0') == std::string_view::npos &&
         inet_pton(family, std::string(text).c_str(), address.data()) == 1;
}

// sizeof(sockaddr_un::sun_path) without the terminating NUL.
constexpr std::size_t kSocketPathMax = 107;
// Of killLimit: more is no limit.
constexpr std::uint32_t kKillsMax = 1000;

}  // namespace

bool is_address(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || !is_port(address.substr(colon + 1))) return false;
  const std::string_view host = address.substr(0, colon);
  if (!host.starts_with('[')) return is_ip(host, AF_INET);
  return host.ends_with(']') && is_ip(host.substr(1, host.size() - 2), AF_INET6);
}

void check_ranking(const v1::Config& given, Config& out, Report& report) {
  if (!given.has_ranking()) return;
  const auto ranking = messages::parse_ranking(given.ranking());
  if (ranking) {
    out.ranking = *ranking;
  } else {
    report.error("ranking", "'ranking' must be kubelet, kernel or kubelet+growth, found '" +
                                given.ranking() + "'");
  }
}

void check_guard(const v1::Config& given, Config& out, Report& report) {
  if (!given.has_guard()) return;
  out.guard = given.guard() == "on";
  if (out.guard || given.guard() == "off") return;
  report.error("guard", "'guard' must be on or off, found '" + given.guard() + "'");
}

// Two lists are less than 60 s apart (agent/standing_guard.h), so none expires while the agent
// runs.
void check_guard_expiry(const v1::Config& given, Config& out, Report& report) {
  if (!given.has_guard_expiry()) return;
  const auto expiry = report.take(parse_duration_within(given.guard_expiry(), 90s, kGuardExpiryMax),
                                  "guardExpiry", "guardExpiry");
  if (expiry) out.guard_expiry = *expiry;
  if (!out.guard) report.warn_at_key("guardExpiry", "has no effect: 'guard' is off");
}

void check_kill_limit(const v1::Config& given, Config& out, Report& report) {
  if (!given.has_kill_limit()) return;
  const v1::KillLimit& limit = given.kill_limit();
  const std::string key = "killLimit.";
  if (limit.has_window()) {
    const auto window =
        report.take(parse_duration_within(limit.window(), 1s, 30s), key + "window", "window");
    if (window) out.kill_limit.window = *window;
  }
  const auto take = [&](bool is_given, std::uint32_t count, const std::string& name,
                        std::uint32_t& into) {
    if (!is_given) return;
    into = count;
    if (count >= 1 && count <= kKillsMax) return;
    report.error(key + name, "'" + name + "' must be from 1 to " + std::to_string(kKillsMax) +
                                 ", found '" + std::to_string(count) + "'");
  };
  auto& classes = out.kill_limit.classes;
  take(limit.has_node(), limit.node(), "node", out.kill_limit.node);
  take(limit.has_guaranteed(), limit.guaranteed(), "guaranteed", classes[0]);
  take(limit.has_burstable(), limit.burstable(), "burstable", classes[1]);
  take(limit.has_best_effort(), limit.best_effort(), "bestEffort", classes[2]);
  take(limit.has_other(), limit.other(), "other", classes[3]);
}

void check_watched_cgroups_max(const v1::Config& given, Config& out, Report& report) {
  if (!given.has_watched_cgroups_max()) return;
  const std::uint32_t most = given.watched_cgroups_max();
  out.watched_cgroups_max = most;
  if (most >= 1 && most <= kWatchedCgroupsMax) return;
  report.error("watchedCgroupsMax", "'watchedCgroupsMax' must be from 1 to " +
                                        std::to_string(kWatchedCgroupsMax) + ", found '" +
                                        std::to_string(most) + "'");
}

void check_pod_list_max_age(const v1::Config& given, Config& out, Report& report) {
  if (!given.has_pod_list_max_age()) return;
  const auto age = report.take(parse_duration_within(given.pod_list_max_age(), 1min, 24h),
                               "podListMaxAge", "podListMaxAge");
  if (age) out.pod_list_max_age = *age;
  if (!given.has_pod_list()) {
    report.warn_at_key("podListMaxAge", "has no effect: there is no 'podList'");
  }
}

void check_metrics_address(const v1::Config& given, Config& out, Report& report) {
  if (!given.has_metrics_address()) return;
  out.metrics_address = given.metrics_address();
  if (is_address(out.metrics_address)) return;
  report.error("metricsAddress",
               "'metricsAddress' must be an IP address and a port like \"127.0.0.1:9464\" or "
               "\"[::1]:9464\", found '" +
                   out.metrics_address + "'");
}

void check_api(const v1::Config& given, Config& out, Report& report) {
  out.api_uids.assign(given.api_users().uids().begin(), given.api_users().uids().end());
  out.api_gids.assign(given.api_users().gids().begin(), given.api_users().gids().end());
  out.api_pod_writers.assign(given.api_users().pod_writers().begin(),
                             given.api_users().pod_writers().end());
  if (!given.has_api_socket()) return;
  const std::string path = given.api_socket() == "off" ? "" : given.api_socket();
  out.api_socket = path;
  const bool usable = path.starts_with('/') && !path.ends_with('/') &&
                      path.size() <= kSocketPathMax && path.find('\0') == std::string::npos;
  if (!path.empty() && !usable) {
    report.error("apiSocket",
                 "'apiSocket' must be an absolute path of at most 107 bytes, or off, "
                 "found '" +
                     path + "'");
  }
  if (path.empty() && given.has_api_users()) {
    report.warn_at_key("apiUsers", "has no effect: 'apiSocket' is off");
  }
}

}  // namespace forestall::intake
