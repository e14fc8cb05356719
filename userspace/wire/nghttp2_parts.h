// SPDX-License-Identifier: Apache-2.0
// What the client and the server need of nghttp2 alike.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <string_view>

namespace forestall::wire {

// A header field. nghttp2 copies both; its type is not const only because a flag can disable the
// copy.
inline nghttp2_nv header_field(std::string_view name, std::string_view value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

struct CallbacksDeleter {
  void operator()(nghttp2_session_callbacks* callbacks) const {
    nghttp2_session_callbacks_del(callbacks);
  }
};

}  // namespace forestall::wire
