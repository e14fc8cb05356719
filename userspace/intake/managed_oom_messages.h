// SPDX-License-Identifier: Apache-2.0
// The messages by which PID 1 and the managers of users report cgroups to systemd-oomd
// (io.systemd.ManagedOOM, io.systemd.oom), and the files of `forestall check-config --managed-oom`.
//
// As systemd-oomd does, a malformed element is skipped and the others are used; unlike there, an
// unknown field does not make an element malformed, because newer systemds add fields.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rulesets/managed_oom.h"
#include "text/diagnostic.h"
#include "text/json_tree.h"

namespace forestall::intake {

struct ManagedOomMessage {
  std::uint32_t uid = 0;   // of the sender
  std::uint32_t line = 1;  // of the file
  std::vector<rulesets::ManagedOomElement> elements;
};

// `systemd_version` below 257 has no durations: they are ignored. A warning is added for each
// skipped element.
[[nodiscard]] std::vector<rulesets::ManagedOomElement> read_managed_oom_elements(
    const text::JsonNode& list, const std::string& file, int systemd_version,
    text::Findings& findings);

// One message a line, `{"uid": N, "parameters": {"cgroups": [..]}}` or the parameters alone; or one
// message in several lines. The result is valid only if no error was added.
[[nodiscard]] std::vector<ManagedOomMessage> read_managed_oom_messages(std::string_view text,
                                                                       const std::string& file,
                                                                       int systemd_version,
                                                                       text::Findings& findings);

// `{PATH: uid}`; an owner of null is unreadable.
using CgroupOwners = std::map<std::string, std::optional<std::uint32_t>>;
[[nodiscard]] CgroupOwners read_cgroup_owners(std::string_view text, const std::string& file,
                                              text::Findings& findings);

// Applies the message to `rules`. A user may report own cgroups only: an element of another owner
// ends the message, and those before it remain; an unreadable owner skips the element. Returns what
// was not applied, in words.
[[nodiscard]] std::vector<std::string> apply_managed_oom(const ManagedOomMessage& message,
                                                         const rulesets::OomdConf& conf,
                                                         const CgroupOwners& owners,
                                                         rulesets::ManagedOomRules& rules);

// `{PATH: {"swap_current", "pgscan", "last_pgscan", "current", "preference"}}`
[[nodiscard]] std::vector<rulesets::ManagedCandidate> read_managed_candidates(
    std::string_view text, const std::string& file, text::Findings& findings);

}  // namespace forestall::intake
