// SPDX-License-Identifier: Apache-2.0
// The kubelet's own configuration file: a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) in
// YAML or JSON, as far as it concerns Forestall.
//
// It is not Forestall's file, so keys that are not known here are none of its business: there are a
// hundred, and new ones every four months. A key that looks like a misspelt eviction setting is an
// error all the same, since the kubelet would pass it over and so would we, silently. Values are
// held to kubelet's types, which come from JSON: a quantity without quotes that reads as a number
// is an error there and hence here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/diagnostic.h"
#include "api/kubelet_settings.h"

namespace forestall::api {

// Appends what is wrong to `errors`; only when nothing was appended are the settings complete.
// `file` stands in origins.
[[nodiscard]] KubeletSettings read_kubelet_config(std::string_view text, const std::string& file,
                                                  std::vector<Finding>& errors);

}  // namespace forestall::api
