// SPDX-License-Identifier: Apache-2.0
#include "cluster/successor.h"

#include <fmt/format.h>

#include "kubernetes/api_status.h"
#include "kubernetes/url.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

constexpr Duration kSuccessorAnswerLongest = std::chrono::seconds(2);

Result<std::string> why_of(std::string_view body) {
  const auto document = TRY(text::JsonDocument::parse(body));
  const text::JsonValue metadata = TRY(document.root().at("metadata"));
  if (TRY(metadata.find("deletionTimestamp"))) {
    return fmt::format("{} is deleted", TRY(metadata.text("name")));
  }
  const auto spec = TRY(document.root().find("spec"));
  const auto made = spec ? TRY(spec->find("template")) : std::nullopt;
  if (!made) return std::string();  // the namespace
  const text::JsonValue pod = TRY(made->at("spec"));
  for (const std::string_view key : {"nodeSelector", "affinity"}) {
    if (!TRY(pod.find(key))) continue;
    return fmt::format("the DaemonSet has a {}, which the node may no longer match", key);
  }
  return std::string();
}

}  // namespace

Result<void> check_daemon_set_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash != std::string_view::npos && slash > 0 && slash + 1 < name.size() &&
      name.find('/', slash + 1) == std::string_view::npos) {
    return {};
  }
  return error(fmt::format("'{}' is not NAMESPACE/NAME of a DaemonSet", name));
}

std::array<kubernetes::OutgoingRequest, 2> successor_requests(std::string_view name) {
  const std::size_t slash = name.find('/');
  const std::string in = kubernetes::percent_encoded(std::string(name.substr(0, slash)));
  const std::string daemon_set = kubernetes::percent_encoded(std::string(name.substr(slash + 1)));
  std::array<kubernetes::OutgoingRequest, 2> requests;
  requests[0].target = "/api/v1/namespaces/" + in;
  requests[1].target = fmt::format("/apis/apps/v1/namespaces/{}/daemonsets/{}", in, daemon_set);
  for (kubernetes::OutgoingRequest& each : requests) each.longest = kSuccessorAnswerLongest;
  return requests;
}

std::string why_no_successor(int code, std::string_view body) {
  if (code != 200) return kubernetes::parse_api_status(code, body).text();
  const auto why = why_of(body);
  return why ? *why : why.error().text();
}

}  // namespace forestall::cluster
