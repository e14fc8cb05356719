// SPDX-License-Identifier: Apache-2.0
#include "clients/runtime.h"

#include <utility>

#include "clients/cri_runtime.h"

namespace forestall::clients {
namespace {

constexpr std::string_view kScheme = "unix://";

}  // namespace

void RemovalFailures::add(Error error) {
  ++count;
  if (first.size() < kKept) first.push_back(std::move(error));
}

Result<std::unique_ptr<ContainerRuntime>> connect(std::string_view endpoint,
                                                  RuntimeOptions options) {
  std::string_view path = endpoint;
  if (path.starts_with(kScheme)) path.remove_prefix(kScheme.size());
  if (!path.starts_with('/')) {
    return error("container runtime endpoint '" + std::string(endpoint) +
                 "': expected unix:// and the absolute path of a socket");
  }
  return std::unique_ptr<ContainerRuntime>(new CriRuntime(std::string(path), std::move(options)));
}

}  // namespace forestall::clients
