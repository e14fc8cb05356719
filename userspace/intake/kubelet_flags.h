// SPDX-License-Identifier: Apache-2.0
// Kubelet's command line flags, in kubelet's grammar (component-base/cli/flag for maps and lists,
// spf13/pflag for the rest), so that a kubelet's command line can be used as it is.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "intake/kubelet_settings.h"
#include "text/diagnostic.h"

namespace forestall::intake {

struct KubeletFlag {
  const char* name;  // without the dashes
  const char* key;   // of the corresponding setting
  const char* form;  // of its value, for help
  const char* help;  // one sentence
  bool valueless;    // a boolean: the flag alone means true
};

[[nodiscard]] std::span<const KubeletFlag> kubelet_flags();

// The values of each flag by name, in the order of the command line. A flag that was not given has
// no entry; a flag with an empty value has one.
using GivenFlags = std::map<std::string, std::vector<std::string>>;

// Appends problems to `errors`; the settings are valid only if nothing was appended.
[[nodiscard]] KubeletSettings read_kubelet_flags(const GivenFlags& given,
                                                 std::vector<text::Finding>& errors);

}  // namespace forestall::intake
