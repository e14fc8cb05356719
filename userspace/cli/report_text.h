// SPDX-License-Identifier: Apache-2.0
// A picture in Markdown, for a ticket: what it comes to, the decisions, the kernel's OOM kills.
#pragma once

#include <string>

#include "forestall/v1/picture.pb.h"

namespace forestall::cli {

// Names stand in it as they are, but for what Markdown or HTML would make something of.
[[nodiscard]] std::string report_text(const v1::Picture& picture);

}  // namespace forestall::cli
