// SPDX-License-Identifier: Apache-2.0
// A pod found in a path is a prefix of it that ends at a '/', is found again from that prefix, and
// has a possible UID.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/parse.h"
#include "sources/pod_paths.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view path(reinterpret_cast<const char*>(data), size);
  const auto pod = forestall::sources::parse_pod_path(path);
  if (!pod) return 0;
  if (!forestall::path_is_within(path, pod->cgroup)) std::abort();
  if (pod->uid.empty() || pod->uid.find('/') != std::string::npos) std::abort();
  if (forestall::sources::parse_pod_path(pod->cgroup) != pod) std::abort();
  return 0;
}
