// Where the browser knows Trusted Types, no text becomes HTML or a script: only the empty text may, which clears.

globalThis.trustedTypes?.createPolicy("default", { createHTML: (text) => (text === "" ? text : null), createScript: () => null, createScriptURL: () => null });
