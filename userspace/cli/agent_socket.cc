// SPDX-License-Identifier: Apache-2.0
#include "cli/agent_socket.h"

namespace forestall::cli {

std::string agent_socket(const Options& options) {
  const bool elsewhere = options.config.empty() && options.run_directory != Options().run_directory;
  if (options.socket.empty() && !elsewhere) {
    const auto loaded = loaded_config(options);
    if (loaded && loaded->config.api_socket) return *loaded->config.api_socket;
  }
  return api_socket(options);
}

}  // namespace forestall::cli
