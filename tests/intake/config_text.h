// SPDX-License-Identifier: Apache-2.0
// Loads a configuration that a test gives as text.
#pragma once

#include <string>
#include <string_view>

#include "intake/config_file.h"

namespace forestall::test {

// `text` is that of config.yaml; `read` reads the files that it refers to.
inline Result<intake::LoadedConfig> load_text(std::string_view text, const intake::ReadFile& read) {
  return intake::load_config({"config.yaml", "", {}},
                             [&](const std::string& path) -> Result<std::string> {
                               if (path == "config.yaml") return std::string(text);
                               return read(path);
                             });
}

}  // namespace forestall::test
