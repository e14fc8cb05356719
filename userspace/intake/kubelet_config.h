// SPDX-License-Identifier: Apache-2.0
// Reads the kubelet's own configuration file: a KubeletConfiguration
// (kubelet.config.k8s.io/v1beta1) in YAML or JSON, as far as Forestall uses it.
//
// Unknown keys are ignored: the file has a hundred keys, and new ones every four months. A key that
// resembles an eviction setting is an error, because kubelet and Forestall would both ignore it
// silently. Values must have kubelet's types, which are JSON's: an unquoted quantity that parses as
// a number is an error in kubelet and therefore here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "intake/kubelet_settings.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// Appends problems to `errors`; the settings are valid only if nothing was appended. `file` is used
// in origins.
[[nodiscard]] KubeletSettings read_kubelet_config(std::string_view text, const std::string& file,
                                                  std::vector<text::Finding>& errors);

}  // namespace forestall::intake
