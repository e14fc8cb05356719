// SPDX-License-Identifier: Apache-2.0
// A picture as Markdown, for a ticket: summary, decisions, OOM kills by the kernel.
#pragma once

#include <string>

#include "forestall/internal/picture.pb.h"

namespace forestall::cli {

// Names are escaped where Markdown or HTML would interpret them.
[[nodiscard]] std::string report_text(const internal::Picture& picture);

}  // namespace forestall::cli
