// SPDX-License-Identifier: Apache-2.0
#include "policy/candidate_memory.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/parse.h"

namespace forestall::policy {
namespace {

// Length of the longest common beginning. Paths of one node share most of their characters, so
// eight at a time are compared.
std::size_t common_length(std::string_view a, std::string_view b) {
  const std::size_t shorter = std::min(a.size(), b.size());
  std::size_t at = 0;
  while (at + 8 <= shorter && std::memcmp(a.data() + at, b.data() + at, 8) == 0) at += 8;
  while (at < shorter && a[at] == b[at]) ++at;
  return at;
}

// '/' sorts first, so that the descendants of a path follow it directly.
bool path_before(std::string_view a, std::string_view b) {
  const std::size_t at = common_length(a, b);
  if (at == a.size() || at == b.size()) return a.size() < b.size();
  const auto order = [](char c) { return c == '/' ? '\0' : c; };
  return order(a[at]) < order(b[at]);
}

std::string_view path_of(const Candidate* candidate) {
  return candidate->sample.workload.path;
}

}  // namespace

std::vector<const Candidate*> outermost(std::vector<const Candidate*> candidates) {
  std::ranges::sort(candidates, path_before, path_of);
  std::string_view around;
  std::erase_if(candidates, [&around](const Candidate* each) {
    if (!around.empty() && path_is_within(path_of(each), around)) return true;
    around = path_of(each);
    return false;
  });
  return candidates;
}

}  // namespace forestall::policy
