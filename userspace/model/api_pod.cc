// SPDX-License-Identifier: Apache-2.0
#include "model/api_pod.h"

#include <algorithm>
#include <string>
#include <utility>

namespace forestall {
namespace {

bool is_lower_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

}  // namespace

bool is_config_hash(std::string_view text) {
  return text.size() == 32 && std::ranges::all_of(text, is_lower_hex);
}

bool is_api_uid(std::string_view uid) {
  if (uid.size() != 36) return false;
  for (std::size_t i = 0; i < uid.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? uid[i] != '-' : !is_lower_hex(uid[i])) return false;
  }
  return true;
}

std::vector<Pod> facts_of_api_pod(Pod pod) {
  const bool mirrors = pod.origin == PodOrigin::mirror && is_config_hash(pod.config_hash);
  const std::string hash = std::exchange(pod.config_hash, {});
  pod.origin = PodOrigin::api;
  std::vector<Pod> facts = {pod};
  if (mirrors) {
    pod.uid = pod.config_hash = hash;
    pod.origin = PodOrigin::static_file;
    facts.push_back(std::move(pod));
  }
  return facts;
}

}  // namespace forestall
