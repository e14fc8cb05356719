// SPDX-License-Identifier: Apache-2.0
// Kubelet's command line flags, by kubelet's grammar (component-base/cli/flag for maps and lists,
// spf13/pflag for the rest), so that a kubelet's own command line can be tried.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "api/diagnostic.h"
#include "api/kubelet_settings.h"

namespace forestall::api {

struct KubeletFlag {
  const char* name;  // without the dashes
  const char* key;   // of the setting it is about
  const char* form;  // of its value, as help shows it
  const char* help;  // one sentence
  bool valueless;    // a truth value: the flag alone means true
};

[[nodiscard]] std::span<const KubeletFlag> kubelet_flags();

// The values given for each flag, in the order of the command line, by the flag's name. A flag
// that was not given is not there; one that was given an empty value is.
using GivenFlags = std::map<std::string, std::vector<std::string>>;

// Appends what is wrong to `errors`; only when nothing was appended are the settings complete.
[[nodiscard]] KubeletSettings read_kubelet_flags(const GivenFlags& given,
                                                 std::vector<Finding>& errors);

}  // namespace forestall::api
