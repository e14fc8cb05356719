// SPDX-License-Identifier: Apache-2.0
#include "policy/candidate_memory.h"

#include <algorithm>
#include <string_view>

#include "base/parse.h"

namespace forestall::policy {
namespace {

// '/' sorts first, so that the descendants of a path follow it directly.
bool path_before(std::string_view a, std::string_view b) {
  const auto order = [](char c) { return c == '/' ? '\0' : c; };
  return std::ranges::lexicographical_compare(a, b, {}, order, order);
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
