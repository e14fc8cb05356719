// SPDX-License-Identifier: Apache-2.0
#include "model/preference.h"

namespace forestall {

std::string_view to_string(Preference preference) {
  switch (preference) {
    case Preference::avoid: return "avoid";
    case Preference::normal: return "normal";
    case Preference::prefer: return "prefer";
  }
  return {};
}

}  // namespace forestall
