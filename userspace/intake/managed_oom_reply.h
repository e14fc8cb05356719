// SPDX-License-Identifier: Apache-2.0
// What PID 1 sends to the subscriber of io.systemd.ManagedOOM.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rulesets/managed_oom.h"

namespace forestall::intake {

struct ManagedOomReply {
  std::vector<rulesets::ManagedOomElement> elements;
  std::vector<std::string> skipped;  // why elements are malformed
  bool continues = false;            // otherwise it is the last one
};

// One reply. An error: it is no reply, or the server refused the call. Unknown fields are ignored.
[[nodiscard]] Result<ManagedOomReply> read_managed_oom_reply(std::string_view text);

}  // namespace forestall::intake
