// SPDX-License-Identifier: Apache-2.0
#include "api/own_settings.h"

#include <arpa/inet.h>

#include <array>
#include <string>

#include "base/parse.h"

namespace forestall::api {
namespace {

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

}  // namespace

std::string_view ranking_word(Ranking ranking) {
  switch (ranking) {
    case Ranking::kubelet: return "kubelet";
    case Ranking::kernel: return "kernel";
    case Ranking::kubelet_growth: return "kubelet+growth";
  }
  return "";
}

std::optional<Ranking> parse_ranking(std::string_view word) {
  for (const Ranking ranking : {Ranking::kubelet, Ranking::kernel, Ranking::kubelet_growth}) {
    if (ranking_word(ranking) == word) return ranking;
  }
  return std::nullopt;
}

bool is_address(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || !is_port(address.substr(colon + 1))) return false;
  const std::string_view host = address.substr(0, colon);
  if (!host.starts_with('[')) return is_ip(host, AF_INET);
  return host.ends_with(']') && is_ip(host.substr(1, host.size() - 2), AF_INET6);
}

void check_ranking(const v1::Config& given, Config& out, Report& report) {
  if (!given.has_ranking()) return;
  const auto ranking = parse_ranking(given.ranking());
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

}  // namespace forestall::api
