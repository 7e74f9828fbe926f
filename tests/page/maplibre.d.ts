// The map library is vendored without its types; what the page uses of it is checked by the browser tests.
export const Map: any;
export const Marker: any;
export const NavigationControl: any;
export const ScaleControl: any;
